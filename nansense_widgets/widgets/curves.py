"""The curves of one layer, alone in a cell, and their numbers as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nansense_widgets.stats.curves import Series, layer_series
from nansense_widgets.widgets.cards import CardsPart
from nansense_widgets.widgets.views.statistics import running_epoch

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Curves"]


class Curves(CardsPart, front_end="curves"):
    """`session.curves(layer)`: statistics against the epoch, and the numbers behind them."""

    _opens_on = "curves"

    def to_dict(self) -> dict[str, dict[str, dict[str, npt.NDArray[Any]]]]:
        """The numbers as arrays: tensor to phase to column to values, one for each epoch, as they are now.

        Tensors are `activations`, `gradients` and the layer's parameters by name. Columns are `epoch` (int64,
        from 0), `running` (bool: more batches are to come), `batches` (int64; of parameters, optimizer steps)
        and, as float64 with NaN where there is none: `mean`, `std`, `median`, `5%`, `25%`, `75%`, `95%`,
        `min`, `max`, and `dead` (channels) of activations. Of parameters the phase `""` has the weights,
        sampled once an epoch; other phases have `gradient norm` and `update ratio`, means over the steps.

        Your own metrics follow as `metric NAME`, and `metric NAME[key]` where one gives several numbers.
        Their columns are `epoch`, `batch` (int64, from 0; -1 for a whole epoch), `x` (float64: where the
        point lies on the axis, from 0), `running` and `value`.
        """
        numbers: dict[str, dict[str, dict[str, npt.NDArray[Any]]]] = {}
        for one in self._series():
            numbers.setdefault(one.tensor, {})[one.phase] = {
                "epoch": one.epochs,
                "running": one.running,
                "batches": one.batches,
                **one.values,
            }
        return numbers | self._metrics()

    def _metrics(self) -> dict[str, dict[str, dict[str, npt.NDArray[Any]]]]:
        [layer] = self.layers
        running = running_epoch(self._source)
        found: dict[str, dict[str, dict[str, npt.NDArray[Any]]]] = {}
        series = self._source.watch_metrics_snapshot(layers=[layer]).series
        for (_, phase, name, key), one in sorted(series.items(), key=lambda item: item[0]):
            goes_on = running is not None and running[0] == phase
            found.setdefault(f"metric {name}[{key}]" if key else f"metric {name}", {})[phase] = {
                "epoch": one.epochs,
                "running": (one.epochs == running[1]) & goes_on if running else np.zeros(len(one), np.bool_),
                "batch": one.batch_indices,
                "x": one.xs,
                "value": one.values,
            }
        return found

    def to_pandas(self) -> pd.DataFrame:
        """The numbers of `to_dict` as a table: a row for each tensor, phase and epoch.

        Raises:
            ImportError: if pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_pandas() needs pandas: pip install pandas, or use to_dict()") from error
        tables = [
            pd.DataFrame({"tensor": tensor, "phase": phase, **columns})
            for tensor, phases in self.to_dict().items()
            for phase, columns in phases.items()
        ]
        if not tables:
            return pd.DataFrame({"tensor": [], "phase": [], "epoch": np.zeros(0, np.int64)})
        return pd.concat(tables, ignore_index=True)

    def _series(self) -> list[Series]:
        [layer] = self.layers
        return layer_series(self._source.watch_snapshot(layers=[layer]), layer, running_epoch(self._source))
