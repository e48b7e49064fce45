from pathlib import Path

import torch
from torch import nn

from rein.framework.updating.update_summaries import summarize_gradients, summarize_variables
from rein.runtime import Run, summary
from rein.runtime.scalar_files import read_scalars
from rein.runtime.writers import JsonlWriter


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
