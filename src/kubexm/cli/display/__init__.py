"""What a run looks like while it runs and when it is over. Observers only: nothing here can change or stop a run."""
