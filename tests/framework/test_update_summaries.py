from pathlib import Path

import pytest
import torch
from torch import nn

from rein.framework.updating.update_summaries import summarize_gradients, summarize_variables
from rein.runtime import Run, summary
from rein.runtime.scalar_files import read_scalars
from rein.runtime.writers import JsonlWriter
from tests.contract import discovery


def test_norms_in_the_place_of_histograms(tmp_path: Path) -> None:
    weight = nn.Parameter(torch.tensor([3.0, 4.0]))
    weight.grad = torch.tensor([0.0, 2.0])
    with Run(tmp_path) as run, summary.record_if(lambda: True):
        run.writer = JsonlWriter(tmp_path)
        summarize_variables([("weight", weight)], with_histogram=False)
        summarize_gradients([("weight", weight)], with_histogram=False)
        run.close()
    scalars = read_scalars(tmp_path)
    assert scalars["parameters/weight/norm"].value.tolist() == [5.0]
    assert scalars["gradients/weight/norm"].value.tolist() == [2.0]


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("name", ["ppo_discrete", "sac_continuous"])
def test_of_updates_at_one_step_the_last_is_summarized(name: str, every: bool, tmp_path: Path) -> None:
    algorithm = discovery.cases()[name].build(num_updates_per_train_iter=2, update_counter_every_mini_batch=every)
    with Run(tmp_path, seed=0) as run, summary.record_if(lambda: True):
        run.writer = JsonlWriter(tmp_path)
        updates = []
        algorithm.learning.update, update = (
            lambda batches: updates.append(1) or update(batches),
            algorithm.learning.update,
        )
        while not updates:
            algorithm.train_iter()
        run.close()
    losses = read_scalars(tmp_path)[f"{algorithm.name}/loss"].value
    assert len(updates) > 1
    assert len(losses) == (len(updates) if every else 1)
