"""Updates with large matrix products are told from those with small ones, and give the same either way."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from rein.data_structures import AlgStep, Experience, LossInfo, StepType, TimeStep
from rein.framework import Batch, OffPolicyAlgorithm, TrainerConfig, UpdateSettings
from rein.framework.updating import product_sizes, replay_training
from rein.networks.layers import FC, ParallelFC
from rein.optimizers import SGD
from rein.runtime import products
from rein.specs import BoundedTensorSpec, TensorSpec


@pytest.fixture
def faster(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (products, product_sizes):
        monkeypatch.setattr(module, "onednn_is_faster", lambda: True)


def batch(rows: int, steps: int, size: int) -> Batch:
    torch.manual_seed(rows)
    step_type = torch.full((rows, steps), int(StepType.MID), dtype=torch.int32)
    return Batch(Experience(TimeStep(step_type=step_type, observation=torch.randn(rows, steps, size))))


@pytest.mark.usefixtures("faster")
def test_every_row_meets_every_weight_and_sequences_one_step_after_the_other() -> None:
    sizes = product_sizes.weight_sizes([torch.zeros(256, 256), torch.zeros(256)])
    assert sizes == [65536]
    independent, in_order = (UpdateSettings(temporally_independent_train_step=kind) for kind in (True, False))
    # 2 * 65536 operations for a row: 16 rows are worth it, 15 are not.
    assert product_sizes.update_pays(sizes, [batch(2, 8, 1)], independent)
    assert not product_sizes.update_pays(sizes, [batch(3, 5, 1)], independent)
    assert not product_sizes.update_pays(sizes, [batch(2, 8, 1)], in_order)
    assert product_sizes.update_pays(sizes, [batch(8, 2, 1), batch(8, 2, 1)], in_order)


def test_nothing_is_counted_where_nothing_can_be_gained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product_sizes, "onednn_is_faster", lambda: False)
    assert product_sizes.weight_sizes([torch.zeros(256, 256)]) == []
    assert not product_sizes.update_pays([], [batch(256, 2, 1)], UpdateSettings())


@pytest.mark.usefixtures("faster")
def test_products_of_a_recorded_graph_are_counted() -> None:
    layer = FC(7, 5)
    twins = ParallelFC(FC(5, 3), 2)
    graph = make_fx(lambda x: (twins(layer(x).expand(2, 4, 5)), x.t() @ x))(torch.randn(4, 7))
    assert sorted(product_sizes._flops(graph)) == sorted([2 * 4 * 7 * 5, 2 * 2 * 4 * 5 * 3, 2 * 7 * 4 * 7])
    assert not product_sizes.graph_pays(graph)
    assert product_sizes.graph_pays(make_fx(lambda x: x @ x)(torch.zeros(128, 128)))


class Squares(OffPolicyAlgorithm):
    """The loss of a step is the sum of the squares of what a layer gives."""

    def __init__(self) -> None:
        super().__init__(
            TensorSpec((64,)),
            BoundedTensorSpec((), torch.int64, 0, 1),
            train_state_spec=(),
            optimizer=SGD(lr=0.1),
            config=TrainerConfig("", whole_replay_buffer_training=False, clear_replay_buffer=False),
        )
        torch.manual_seed(0)
        self.layers = nn.Sequential(FC(64, 64, torch.relu_), FC(64, 64))

    def train_step(self, inputs: TimeStep, state: Any, rollout_info: Any) -> AlgStep:
        seen.append(getattr(torch.backends.mkldnn.matmul, "fp32_precision", None))
        return AlgStep(info=self.layers(inputs.observation).square().sum(-1))

    def calc_loss(self, info: Any) -> LossInfo:
        return LossInfo(loss=info)


seen: list[str | None] = []


@pytest.mark.skipif(not products._may_be_exact(), reason="oneDNN might make products in bfloat16 here")
@pytest.mark.usefixtures("faster")
def test_gradients_of_an_update_agree_to_rounding_and_nothing_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    given = []
    seen.clear()
    for is_faster in (False, True):
        monkeypatch.setattr(replay_training, "update_pays", lambda *args, chosen=is_faster: chosen)
        given.append(Squares().compute_gradients([batch(64, 2, 64)]).values)
    assert seen[0] != "bf16"
    assert seen[1] == "bf16"
    assert torch.backends.mkldnn.matmul.fp32_precision != "bf16"
    for one, other in zip(*given, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
