"""Backup sets: an etcd snapshot, what is known about it, and the cluster's keys sealed for a recipient."""
