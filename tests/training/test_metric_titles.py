"""Metrics are named in words."""

import pytest

from rein.training.metric_titles import metric_title, metric_titles


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("Metrics/AverageReturn", "Training return"),
        ("Evaluation/AverageReturn", "Evaluation return"),
        ("Metrics/AverageReturn/1", "Training return, reward 1"),
        ("Metrics/AverageEnvInfo/success", "In training: success"),
        ("ActorCriticAlgorithm/loss", "Loss"),
        ("ActorCriticAlgorithm/loss/pg_loss", "Policy gradient loss"),
        ("SacAlgorithm/alpha/0", "Alpha, 0"),
        ("PPOLoss/approximate_kl", "Approximate KL"),
        ("eval/test_acc", "Evaluation: test accuracy"),
        ("own/MyMetric", "My metric"),
        ("x", "X"),
        ("", ""),
        ("///", "///"),
    ],
)
def test_a_title(name, title):
    assert metric_title(name) == title


def test_two_metrics_of_one_title_say_whose_they_are():
    titles = metric_titles(["SacAlgorithm/loss", "RNDAlgorithm/loss", "Metrics/AverageReturn"])
    assert titles == {
        "SacAlgorithm/loss": "Loss (SAC)",
        "RNDAlgorithm/loss": "Loss (RND)",
        "Metrics/AverageReturn": "Training return",
    }
