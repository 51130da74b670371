"""Kinds of models and loops. Each is built the same way every time, so that two runs can be compared.

A kind is a function that returns a `Program`: the model, its optimizers, the batches, and the body of the
training loop, or a loop of its own. Bodies do what users do: they draw random numbers, work in place,
branch on values, clip. One file a theme; importing it enters its kinds into `KINDS`.
"""

import importlib
import pkgutil

from tests.kinds.convolutional import Residual, residual_network, unet
from tests.kinds.dtypes import double_precision_and_complex, sparse_embedding
from tests.kinds.loops import lbfgs_closure
from tests.kinds.machinery import (
    activation_checkpointing,
    activation_checkpointing_reentrant,
    custom_autograd_function,
    module_replaced_while_training,
)
from tests.kinds.program import EPOCHS, KINDS, Bare, Program, Walk
from tests.kinds.reuse import gan_with_two_optimizers, per_sample_gradients_by_vmap
from tests.kinds.routing import mixture_of_experts
from tests.kinds.sequences import (
    GPT,
    encoder_decoder_transformer,
    gpt_with_tied_embeddings,
    lstm_classifier,
    torch_transformer_encoder,
)
from tests.kinds.structure import nested_outputs_and_keyword_inputs

for theme in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{theme.name}")

__all__ = [
    "EPOCHS",
    "GPT",
    "KINDS",
    "Bare",
    "Program",
    "Residual",
    "Walk",
    "activation_checkpointing",
    "activation_checkpointing_reentrant",
    "custom_autograd_function",
    "double_precision_and_complex",
    "encoder_decoder_transformer",
    "gan_with_two_optimizers",
    "gpt_with_tied_embeddings",
    "lbfgs_closure",
    "lstm_classifier",
    "mixture_of_experts",
    "module_replaced_while_training",
    "nested_outputs_and_keyword_inputs",
    "per_sample_gradients_by_vmap",
    "residual_network",
    "sparse_embedding",
    "torch_transformer_encoder",
    "unet",
]
