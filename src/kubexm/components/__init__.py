"""Everything Kubernetes, one folder for each component: module, tasks, its own steps, config, versions."""
