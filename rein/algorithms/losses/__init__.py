"""Losses that several families share."""

from rein.algorithms.losses.actor_critic_loss import ActorCriticLoss
from rein.algorithms.losses.one_step_loss import OneStepTDLoss, OneStepTDQRLoss
from rein.algorithms.losses.ppg_aux_phase_loss import PPGAuxPhaseLoss
from rein.algorithms.losses.ppo_loss import PPOLoss
from rein.algorithms.losses.td_loss import TDLoss, TDQRLoss
from rein.algorithms.losses.vtrace_loss import VTraceLoss

__all__ = [
    "ActorCriticLoss",
    "OneStepTDLoss",
    "OneStepTDQRLoss",
    "PPGAuxPhaseLoss",
    "PPOLoss",
    "TDLoss",
    "TDQRLoss",
    "VTraceLoss",
]
