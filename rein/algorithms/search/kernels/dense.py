"""Small models beside the tree: products with packed weights, activations, and the steps of a `HostProgram`."""

# Numba infers the types of these functions from what they are called with.
# mypy: ignore-errors

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from rein.algorithms.search.host_model import LANES
from rein.algorithms.search.kernels.jit import arithmetic, part

_TANH_BOUND = np.float32(7.9053111)
"""From here on tanh is 1 in single precision."""
_TANH_ODD = tuple(
    np.float32(c)
    for c in (
        -2.76076847742355e-16,
        2.00018790482477e-13,
        -8.60467152213735e-11,
        5.12229709037114e-08,
        1.48572235717979e-05,
        6.37261928875436e-04,
        4.89352455891786e-03,
    )
)
_TANH_EVEN = tuple(
    np.float32(c) for c in (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03)
)
"""A quotient of polynomials, highest power first, within a few units in the last place of tanh, which loops can vectorise."""


def _panel_product(panels: int, inputs: int):
    """A product of a row with `panels` adjacent panels of weights, whose sums stay in vector registers.

    Loops of numba would read and write the sums at every input. Each of `inputs` inputs in turn has sums of its own, so that
    they need not wait for each other.
    """
    vector = ir.VectorType(ir.FloatType(), LANES)
    word = ir.IntType(64)
    fused = ("contract",)

    @intrinsic
    def product(typing_context, memory, at, size, weights, place, bias, to):
        signature = types.void(memory, types.int64, types.int64, weights, types.int64, types.int64, types.int64)

        def generate(context, builder, signature, arguments):
            memory, at, size, weights, place, bias, to = arguments
            row = context.make_array(signature.args[0])(context, builder, memory).data
            packed = context.make_array(signature.args[3])(context, builder, weights).data

            def vector_at(base, index):
                return builder.bitcast(builder.gep(base, [index]), vector.as_pointer())

            def add(a, b):
                return builder.add(a, b if isinstance(b, ir.Value) else ir.Constant(word, b))

            stride = builder.mul(size, ir.Constant(word, LANES))
            firsts = [add(place, builder.mul(stride, ir.Constant(word, p))) for p in range(panels)]
            nothing = ir.Constant(vector, [0.0] * LANES)
            starts = [builder.load(vector_at(packed, add(bias, p * LANES)), align=4) for p in range(panels)]
            starts += [nothing] * (panels * (inputs - 1))
            before = builder.block
            loop, after = builder.append_basic_block("inputs"), builder.append_basic_block("done")
            builder.branch(loop)
            builder.position_at_end(loop)
            index = builder.phi(word)
            index.add_incoming(ir.Constant(word, 0), before)
            sums = [builder.phi(vector) for _ in starts]
            grown = []
            for number, (total, start) in enumerate(zip(sums, starts, strict=True)):
                total.add_incoming(start, before)
                i, p = add(index, number // panels), number % panels
                x = builder.load(builder.gep(row, [add(at, i)]), align=4)
                one = builder.insert_element(ir.Constant(vector, ir.Undefined), x, ir.Constant(ir.IntType(32), 0))
                spread = builder.shuffle_vector(
                    one, one, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
                )
                offset = add(firsts[p], builder.mul(i, ir.Constant(word, LANES)))
                weight = builder.load(vector_at(packed, offset), align=4)
                grown.append(builder.fadd(total, builder.fmul(spread, weight, flags=fused), flags=fused))
            following = add(index, inputs)
            for total, more in zip(sums, grown, strict=True):
                total.add_incoming(more, loop)
            index.add_incoming(following, loop)
            builder.cbranch(builder.icmp_signed("<", following, size), loop, after)
            builder.position_at_end(after)
            for p in range(panels):
                total = grown[p]
                for other in grown[p + panels :: panels]:
                    total = builder.fadd(total, other)
                builder.store(total, vector_at(row, add(to, p * LANES)), align=4)
            return context.get_dummy_value()

        return signature, generate

    return product


_four_panels = _panel_product(4, 1)
_one_panel = _panel_product(1, 4)


@part
def _fully_connected(memory, at, size, to, width, weights, matrix, bias):
    """Writes a layer's output; `size` is a multiple of 4, `width` of `LANES`."""
    done = 0
    while done + 4 * LANES <= width:
        _four_panels(memory, at, size, weights, matrix + done * size, bias + done, to + done)
        done += 4 * LANES
    while done < width:
        _one_panel(memory, at, size, weights, matrix + done * size, bias + done, to + done)
        done += LANES


# Loops below run over slices from 0 on: with offsets in the index they would not be vectorised.


@arithmetic
def _activate(x, kind):
    if kind == 1:
        for j in range(x.shape[0]):
            x[j] = max(x[j], np.float32(0.0))
    elif kind == 2:
        for j in range(x.shape[0]):
            t = min(max(x[j], -_TANH_BOUND), _TANH_BOUND)
            y = t * t
            odd = y * _TANH_ODD[0] + _TANH_ODD[1]
            odd = y * odd + _TANH_ODD[2]
            odd = y * odd + _TANH_ODD[3]
            odd = y * odd + _TANH_ODD[4]
            odd = y * odd + _TANH_ODD[5]
            odd = y * odd + _TANH_ODD[6]
            even = y * _TANH_EVEN[0] + _TANH_EVEN[1]
            even = y * even + _TANH_EVEN[2]
            even = y * even + _TANH_EVEN[3]
            x[j] = t * odd / even


@arithmetic
def _add_row(out, row):
    for j in range(out.shape[0]):
        out[j] += row[j]


@arithmetic
def _scale_to_unit(x, out):
    low, high = x[0], x[0]
    for i in range(x.shape[0]):
        low, high = min(low, x[i]), max(high, x[i])
    scale = max(high - low, np.float32(1e-5))
    for i in range(x.shape[0]):
        out[i] = (x[i] - low) / scale


@part
def run_steps(steps, first, weights, memory, action):
    """Runs the steps of a `HostProgram` from `first` on, on the memory of one row."""
    for s in range(first, steps.shape[0]):
        kind, at, size, to, width = steps[s, 0], steps[s, 1], steps[s, 2], steps[s, 3], steps[s, 4]
        if kind == 0:
            _fully_connected(memory, at, size, to, width, weights, steps[s, 5], steps[s, 6])
            rows = steps[s, 8]
            if rows >= 0:
                _add_row(memory[to : to + width], weights[rows + action * width : rows + (action + 1) * width])
            _activate(memory[to : to + width], steps[s, 7])
        elif kind == 1:
            _activate(memory[at : at + size], steps[s, 7])
        else:
            _scale_to_unit(memory[at : at + size], memory[to : to + size])


@part
def read_prior(host, memory, out, logarithm):
    """Writes the probabilities of the actions, [K], and their logarithms, [K] or empty.

    Returns:
        The sum of the probabilities before normalisation, finite if they are.
    """
    branches = out.shape[0]
    logits = memory[host.logits : host.logits + branches]
    largest, total = -np.inf, 0.0
    for k in range(branches):
        largest = max(largest, logits[k])
    for k in range(branches):
        out[k] = math.exp(logits[k] - largest)
        total += out[k]
    for k in range(branches):
        out[k] /= total
    if logarithm.shape[0] > 0:
        offset = largest + math.log(total)
        for k in range(branches):
            logarithm[k] = logits[k] - offset
    return total


@part
def is_over(host, memory):
    """Whether the logit of the end is above its threshold."""
    return host.game_over >= 0 and memory[host.game_over] > host.threshold
