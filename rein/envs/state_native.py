"""Plain forms for what worlds keep outside Python attributes: MuJoCo, the Arcade Learning Environment, MiniGrid.

Classes are recognised by name, so that nothing is imported that the world has not imported itself.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["NotResumableError", "decode", "encode"]

_DERIVED = (
    "xpos",
    "xquat",
    "xmat",
    "xipos",
    "ximat",
    "xiquat",
    "xanchor",
    "xaxis",
    "geom_xpos",
    "geom_xmat",
    "site_xpos",
    "site_xmat",
    "cam_xpos",
    "cam_xmat",
    "subtree_com",
    "subtree_linvel",
    "subtree_angmom",
    "cinert",
    "crb",
    "cdof",
    "cdof_dot",
    "cvel",
    "cacc",
    "cfrc_int",
    "cfrc_ext",
    "qacc",
    "qacc_smooth",
    "qfrc_actuator",
    "qfrc_bias",
    "qfrc_passive",
    "qfrc_constraint",
    "qfrc_smooth",
    "qfrc_inverse",
    "actuator_length",
    "actuator_velocity",
    "actuator_force",
    "act_dot",
    "sensordata",
    "ten_length",
    "ten_velocity",
    "energy",
)
"""What MuJoCo computes from its state: worlds read some of it before the next simulation step."""


class NotResumableError(ValueError):
    """A world whose state has no plain form, or does not fit the saved one."""


def module_of(value: Any) -> str:
    """The module of the class of `value`; "" where a native class does not tell."""
    module = getattr(type(value), "__module__", "")
    return module if isinstance(module, str) else ""


def encode(value: Any, owner: Any, encode_part: Callable[..., Any], path: str) -> dict[str, Any] | None:
    """The plain form of a native object; None if `value` is not one that is known."""
    module, name = module_of(value), type(value).__name__
    if module.startswith("mujoco."):
        return _encode_mujoco(value, owner, name)
    if module.startswith("ale_py."):
        return _encode_ale(value, name, path)
    if module.startswith("minigrid.core.grid"):
        return {"kind": "minigrid", "cells": encode_part(value.grid, f"{path}.grid")}
    if module.startswith("minigrid.core.world_object"):
        return _encode_minigrid_object(value, encode_part, path)
    if module.startswith("Box2D"):
        raise NotResumableError(f"{path} is a Box2D object, whose state cannot be saved")
    return None


def decode(kind: str, data: dict[str, Any], live: Any, owner: Any, decode_part: Callable[..., Any], path: str) -> Any:
    """Brings a native object of a live world into a saved state."""
    if kind == "mujoco_data":
        return _decode_mujoco(data, live, owner, path)
    if kind == "ale":
        if live is None:
            raise NotResumableError(f"{path} was an ALEInterface, but is missing now")
        live.restoreState(type(live.cloneState())(data["values"].tobytes()))
        return live
    if kind == "native_constant":
        return live
    if kind == "minigrid":
        live.grid = decode_part(data["cells"], None, f"{path}.grid")
        return live
    if kind == "minigrid_object":
        return _decode_minigrid_object(data, decode_part, path)
    raise NotResumableError(f"{path} was saved as {kind!r}, which is unknown")


def _encode_mujoco(value: Any, owner: Any, name: str) -> dict[str, Any]:
    if name != "MjData":
        return {"kind": "native_constant"}
    mujoco = sys.modules["mujoco"]
    model = getattr(owner, "model", None)
    if model is None:
        raise NotResumableError("MjData without a model beside it")
    what = int(mujoco.mjtState.mjSTATE_INTEGRATION)
    values = np.empty(mujoco.mj_stateSize(model, what))
    mujoco.mj_getState(model, value, values, what)
    derived = {name: np.array(getattr(value, name)) for name in _DERIVED if hasattr(value, name)}
    return {"kind": "mujoco_data", "values": values, "derived": derived}


def _decode_mujoco(data: dict[str, Any], live: Any, owner: Any, path: str) -> Any:
    mujoco = sys.modules["mujoco"]
    what = int(mujoco.mjtState.mjSTATE_INTEGRATION)
    model = owner.model
    if mujoco.mj_stateSize(model, what) != len(data["values"]):
        raise NotResumableError(f"{path}: the saved MuJoCo model has another size of state")
    mujoco.mj_setState(model, live, np.asarray(data["values"]), what)
    for name, values in data["derived"].items():
        np.copyto(getattr(live, name), values)
    return live


def _encode_ale(value: Any, name: str, path: str) -> dict[str, Any]:
    if name != "ALEInterface":
        return {"kind": "native_constant"}
    if value.getFloat("repeat_action_probability") > 0:
        raise NotResumableError(
            f"{path} has sticky actions, and the Arcade Learning Environment does not tell which action it would repeat "
            "(exact with repeat_action_probability=0)"
        )
    serialized = value.cloneState(include_rng=True).serialize()
    return {"kind": "ale", "values": np.frombuffer(serialized, dtype=np.uint8).copy()}


def _encode_minigrid_object(value: Any, encode_part: Callable[..., Any], path: str) -> dict[str, Any]:
    code = [int(number) for number in value.encode()]
    attributes = {
        name: encode_part(part, f"{path}.{name}") for name, part in vars(value).items() if name not in ("type", "color")
    }
    return {"kind": "minigrid_object", "code": code, "attributes": attributes}


def _decode_minigrid_object(data: dict[str, Any], decode_part: Callable[..., Any], path: str) -> Any:
    world_object = sys.modules["minigrid.core.world_object"].WorldObj.decode(*data["code"])
    if world_object is None:
        raise NotResumableError(f"{path}: MiniGrid cannot make an object of the code {data['code']}")
    for name, saved in data["attributes"].items():
        setattr(world_object, name, decode_part(saved, None, f"{path}.{name}"))
    return world_object
