"""Numbers of the run, alone in a cell, and the same as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nansense_widgets.widgets.cards import CardsPart

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RunCurves"]


class RunCurves(CardsPart, front_end="run"):
    """`session.run_curves()`: what the run logged, against the epoch, and the numbers behind it."""

    _opens_on = "run"

    def to_dict(self) -> dict[str, dict[str, dict[str, npt.NDArray[Any]]]]:
        """The numbers as arrays: name to phase to column to values, one for each point, as they are now.

        Columns are `epoch` (int64, from 0), `batch` (int64, from 0; -1 for a point of no batch) and `value`
        (float64). Where a name was logged and seen in `backward()` too, it is what was logged.
        """
        log = self._source.run_log
        return {
            name: {
                phase: {"epoch": one.epochs, "batch": one.batch_indices, "value": one.values}
                for phase, one in log.series(name).items()
            }
            for name in log.names
        }

    def to_pandas(self) -> pd.DataFrame:
        """The numbers of `to_dict` as a table: a row for each name, phase and point.

        Raises:
            ImportError: if pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_pandas() needs pandas: pip install pandas, or use to_dict()") from error
        tables = [
            pd.DataFrame({"name": name, "phase": phase, **columns})
            for name, phases in self.to_dict().items()
            for phase, columns in phases.items()
        ]
        if not tables:
            return pd.DataFrame({"name": [], "phase": [], "epoch": np.zeros(0, np.int64)})
        return pd.concat(tables, ignore_index=True)
