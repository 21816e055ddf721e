"""Probes: what users of a cluster experience while something is done to it, measured and counted by cause.

What it brings while it measures: a namespace `kubexm-probe-…` with a ClusterRole and its binding of the same name, and
on hosts a directory below /var/lib/kubexm/probes and a transient unit. All of it is removed at the end; what a killed
process left is removed by the next measurement.
"""
