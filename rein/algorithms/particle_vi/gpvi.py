"""Generative particle variational inference (Ratzlaff et al. 2021, arXiv:2107.00107): Stein descent in noise space.

For a generator x = F(z) with the invertible Jacobian J,

    g_j = mean_i k(z_i, z_j) dE/dx_i - w mean_i J(z_i)^-T d/dz_i k(z_i, z_j)

is the direction in which *functions* descend, so the kernel compares noise and not outputs. A network f of K < D inputs
becomes invertible as F(z) = f(z_1) + lambda z, with z_1 the first K elements of z:

    J = [[df_1/dz_1 + lambda I, 0], [df_2/dz_1, lambda I]]

J^-T v is found by solving ("direct"), or by a helper network trained on |y^T J - v|^2. "Block" does either for the upper
left block only, and the rest in closed form.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from rein.algorithms.particle_vi.amortized import GeneratedBatch, KernelWidth, Moved
from rein.algorithms.particle_vi.inverse_mvp import InverseMVPAlgorithm
from rein.algorithms.particle_vi.propagation import propagated_loss
from rein.data_structures import LossInfo
from rein.nest import Nest
from rein.networks import ReluMLP
from rein.ops import pairwise_squared_distance, rbf_kernel_gradients, solve_block_jacobian, solve_jacobian


class FunctionalGradient:
    """Moves the outputs of a generator by GPVI."""

    def __init__(
        self,
        net: ReluMLP,
        get_lambda: Callable[[], Tensor],
        width: KernelWidth,
        uses_blocks: bool,
        inverse_mvp: InverseMVPAlgorithm | None,
        solve_iterations: int,
    ) -> None:
        """Keeps the parts.

        Args:
            net: f, from K to D numbers.
            get_lambda: the present lambda, a constant here; not used if K is D.
            width: of the kernel.
            uses_blocks: solve for the first K elements of y, if K is below D.
            inverse_mvp: helper of size K with blocks and of size D without; None solves directly.
            solve_iterations: updates of the helper per step.
        """
        self._net, self._get_lambda, self._width = net, get_lambda, width
        self._noise_dim, self._output_dim = net.input_size, net.output_size
        self._is_square = net.input_size == net.output_size
        self._uses_blocks = uses_blocks and not self._is_square
        self._inverse_mvp, self._solve_iterations = inverse_mvp, solve_iterations

    def __call__(self, batch: GeneratedBatch) -> Moved:
        """See the module."""
        z = batch.noise
        other_x, other_z = batch.resample()
        squared = pairwise_squared_distance(other_z, z)
        width = self._width(squared, squared.numel())
        kernel = (-squared / width).exp()
        loss, gradient = batch.loss_at(other_x)
        vectors = rbf_kernel_gradients(other_z, z, kernel, width)
        with _constant(self._net):
            solved, helper_loss = self.solve(other_z, vectors)
        direction = kernel.t() @ gradient / other_z.shape[0] - batch.entropy_weight * solved.mean(0)
        return Moved(propagated_loss(direction, batch.outputs), loss, helper_loss)

    def solve(self, z: Tensor, vectors: Tensor) -> tuple[Tensor, Nest]:
        """Y with y^T J(z) = v^T.

        Args:
            z: [N, D] noise.
            vectors: [N, M, D] v.

        Returns:
            [N, M, D] y, and the loss of the helper, `()` without one.
        """
        head = z[:, : self._noise_dim]
        if self._uses_blocks:
            return self._solve_blocks(head, vectors)
        if self._inverse_mvp is None:
            return solve_jacobian(self._jacobian(head), vectors), ()
        return self._solve_by_helper(head, vectors, slice(None))

    @torch.no_grad()
    def _jacobian(self, z: Tensor) -> Tensor:
        """J at [N, K] noise, [N, D, D]."""
        jacobian = self._net.compute_jac(z)
        if self._is_square:
            return jacobian
        padding = jacobian.new_zeros(z.shape[0], self._output_dim, self._output_dim - self._noise_dim)
        return torch.cat([jacobian, padding], -1) + self._get_lambda() * torch.eye(self._output_dim)

    def _solve_blocks(self, z: Tensor, vectors: Tensor) -> tuple[Tensor, Nest]:
        size, diagonal = self._noise_dim, self._get_lambda()
        rest = vectors[..., size:]
        with torch.no_grad():
            product, _ = self._net.compute_vjp(z.unsqueeze(1), rest, slice(size, None))
        if self._inverse_mvp is None:
            with torch.no_grad():
                block = self._net.compute_jac(z, slice(size)) + diagonal * torch.eye(size)
            return solve_block_jacobian(block, product, vectors, diagonal), ()
        first, loss = self._solve_by_helper(z, vectors[..., :size] - product / diagonal, slice(size))
        return torch.cat([first, rest / diagonal], -1), loss

    def _solve_by_helper(self, z: Tensor, vectors: Tensor, outputs: slice) -> tuple[Tensor, Nest]:
        """The same for the equations of some outputs, by the helper, which is trained on the way."""
        assert self._inverse_mvp is not None
        flat = vectors.flatten(0, 1)
        info = LossInfo()
        with torch.enable_grad():
            for _ in range(self._solve_iterations):
                solved, rows = self._inverse_mvp.predict_step((z, vectors)).output
                error = (self._product(rows, solved, outputs) - flat).square().mean()
                info, _ = self._inverse_mvp.update_with_gradient(LossInfo(scalar_loss=error))
        with torch.no_grad():
            solved, _ = self._inverse_mvp.predict_step((z, vectors)).output
        loss = info.loss.detach() if isinstance(info.loss, Tensor) else ()
        return solved.reshape(vectors.shape), loss

    def _product(self, z: Tensor, vectors: Tensor, outputs: slice) -> Tensor:
        """y^T J for rows [N, K] and [N, D or K]."""
        product, _ = self._net.compute_vjp(z, vectors, outputs)
        if self._is_square:
            return product
        padding = product.new_zeros(product.shape[0], vectors.shape[1] - product.shape[1])
        return torch.cat([product, padding], -1) + self._get_lambda() * vectors


@contextmanager
def _constant(net: ReluMLP) -> Iterator[None]:
    """A block in which no gradient reaches the parameters of `net`."""
    trained = [parameter for parameter in net.parameters() if parameter.requires_grad]
    for parameter in trained:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)
