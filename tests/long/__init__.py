"""The full counts of what `make test` runs at sample size, in parts of at most half an hour that can be resumed."""
