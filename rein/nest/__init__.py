"""Nested structures of tensors: the data that every part of Rein passes around.

A *nest* is a leaf, or a tuple, list, dict, NamedTuple or `nest.dataclass` of nests. Everything else is a
leaf, `None` included. The empty tuple `()` is the nest without leaves: it means "nothing here", and every
function passes it through at no cost.

The walking is done by `optree` (pytrees in C++); this package gives it the names, the checks and the error
messages that the rest of Rein relies on. Paths are written with dots: ``"time_step.observation.image"``.

    >>> from rein import nest
    >>> nest.map_structure(lambda x, y: x + y, {"a": 1, "b": (2, ())}, {"a": 10, "b": (20, ())})
    {'a': 11, 'b': (22, ())}
    >>> nest.flatten_with_paths({"a": 1, "b": (2, ())})
    [('a', 1), ('b.0', 2)]
"""

from rein.nest.batch import (
    batch_nested_tensor,
    concat_nests,
    expand_dims_as,
    get_nest_batch_size,
    get_nest_shape,
    get_nest_size,
    get_outer_rank,
    index_nest,
    is_batched_nested_tensors,
    reshape_batch,
    stack_nests,
    unbatch_nested_tensor,
)
from rein.nest.conversion import convert_device, detach, from_numpy, grad, to_numpy, zeros_like
from rein.nest.fields import (
    find_field,
    get_field,
    get_nested_field,
    prune_nest_like,
    set_field,
    transform_nest,
)
from rein.nest.structure import (
    Nest,
    assert_same_structure,
    assert_same_structure_up_to,
    dataclass,
    flatten,
    flatten_up_to,
    flatten_with_paths,
    is_empty,
    is_namedtuple,
    is_nested,
    map_structure,
    map_structure_up_to,
    map_structure_with_path,
    pack_sequence_as,
    structure_of,
)

__all__ = [
    "Nest",
    "assert_same_structure",
    "assert_same_structure_up_to",
    "batch_nested_tensor",
    "concat_nests",
    "convert_device",
    "dataclass",
    "detach",
    "expand_dims_as",
    "find_field",
    "flatten",
    "flatten_up_to",
    "flatten_with_paths",
    "from_numpy",
    "get_field",
    "get_nest_batch_size",
    "get_nest_shape",
    "get_nest_size",
    "get_nested_field",
    "get_outer_rank",
    "grad",
    "index_nest",
    "is_batched_nested_tensors",
    "is_empty",
    "is_namedtuple",
    "is_nested",
    "map_structure",
    "map_structure_up_to",
    "map_structure_with_path",
    "pack_sequence_as",
    "prune_nest_like",
    "reshape_batch",
    "set_field",
    "stack_nests",
    "structure_of",
    "to_numpy",
    "transform_nest",
    "unbatch_nested_tensor",
    "zeros_like",
]
