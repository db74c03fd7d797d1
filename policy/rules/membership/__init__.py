"""Which group a pod belongs to, how big it is, and which members come first."""
