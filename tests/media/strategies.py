"""Arrays that a training run might hold, the ugly ones too."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

FLOATS = (np.float32, np.float64)


def arrays(
    ndim: int, *, min_side: int = 1, max_side: int = 9, finite: bool = False
) -> st.SearchStrategy[npt.NDArray[Any]]:
    """Float32 and float64 arrays: any magnitude, subnormal too, NaN and infinities unless `finite`."""
    return st.sampled_from(FLOATS).flatmap(
        lambda dtype: hnp.arrays(
            dtype,
            hnp.array_shapes(min_dims=ndim, max_dims=ndim, min_side=min_side, max_side=max_side),
            elements=st.floats(
                width=np.dtype(dtype).itemsize * 8,  # type: ignore[arg-type]
                allow_nan=not finite,
                allow_infinity=not finite,
            )
            | st.floats(-4, 4, width=32)
            | st.just(0.0),
        )
    )
