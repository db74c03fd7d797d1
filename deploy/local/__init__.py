"""A real control plane on loopback, built from published Go modules and run as ordinary processes.

What the demo, the cluster tests and the benchmarks stand on. Linux only: processes are known by /proc.
Start reading at `cluster.py`.
"""
