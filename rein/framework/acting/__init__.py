"""Acting in environments: `actor` is the one place that acts, `rollout` collects what happens for learning."""
