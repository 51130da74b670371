"""A PyTorch training debugger that lives in the notebook."""

from nansense_widgets.capture.architecture import Architecture, ArchitectureNode
from nansense_widgets.capture.axes import Axes
from nansense_widgets.capture.receptive import ReceptiveField
from nansense_widgets.capture.roles import ParameterRole
from nansense_widgets.capture.snapshot import (
    BatchSnapshot,
    Cost,
    LayerCall,
    LeafValue,
    ParameterInfo,
    ParameterOptimizer,
)
from nansense_widgets.errors import (
    LoopClosed,
    MomentError,
    NansenseError,
    SessionStateError,
    TimeTravelError,
    TimeTravelJump,
)
from nansense_widgets.history.restorer import TimeTravelStatus, TrainingRestorer
from nansense_widgets.history.status import HistoryStatus, Way
from nansense_widgets.probe.answers import Answers
from nansense_widgets.probe.batch import InputBatch
from nansense_widgets.probe.field import MeasuredField, Unit
from nansense_widgets.probe.perturbation import Perturbation
from nansense_widgets.probe.reading import ProbeReading
from nansense_widgets.probe.result import Moved, ProbeResult
from nansense_widgets.probe.updates import PinUpdate
from nansense_widgets.run.events import Event
from nansense_widgets.run.frequency import UpdateFrequency
from nansense_widgets.run.hyperparameters import Hyperparameter
from nansense_widgets.run.mode import Mode
from nansense_widgets.run.position import BatchPosition
from nansense_widgets.run.progress import Progress
from nansense_widgets.run.schedule import Schedule
from nansense_widgets.run.status import RunStatus
from nansense_widgets.run.trail import Segment
from nansense_widgets.run.worker import LoopFailure
from nansense_widgets.session import Session
from nansense_widgets.session.memory import MemoryEntry, MemoryReport
from nansense_widgets.start import load_moment, start
from nansense_widgets.stats.bins import histogram_edges
from nansense_widgets.stats.branches import Branch
from nansense_widgets.stats.gallery import ChannelExtremes, Gallery, Patch, Sample
from nansense_widgets.stats.instruments.context import LayerContext, WeightContext
from nansense_widgets.stats.instruments.store import MetricsSnapshot
from nansense_widgets.stats.nonfinite import FirstNonFinite
from nansense_widgets.stats.performance import WatchPerformance
from nansense_widgets.stats.runlog import RunLogSnapshot
from nansense_widgets.stats.scope import StatsScope
from nansense_widgets.stats.series import MetricSeries
from nansense_widgets.stats.snapshot import (
    LayerStatsSnapshot,
    ParameterStatsSnapshot,
    StepSeries,
    TensorStatsSnapshot,
    WatchSnapshot,
)

__all__ = [
    "Answers",
    "Architecture",
    "ArchitectureNode",
    "Axes",
    "BatchPosition",
    "BatchSnapshot",
    "Branch",
    "ChannelExtremes",
    "Cost",
    "Event",
    "FirstNonFinite",
    "Gallery",
    "HistoryStatus",
    "Hyperparameter",
    "InputBatch",
    "LayerCall",
    "LayerContext",
    "LayerStatsSnapshot",
    "LeafValue",
    "LoopClosed",
    "LoopFailure",
    "MeasuredField",
    "MemoryEntry",
    "MemoryReport",
    "MetricSeries",
    "MetricsSnapshot",
    "Mode",
    "MomentError",
    "Moved",
    "NansenseError",
    "ParameterInfo",
    "ParameterOptimizer",
    "ParameterRole",
    "ParameterStatsSnapshot",
    "Patch",
    "Perturbation",
    "PinUpdate",
    "ProbeReading",
    "ProbeResult",
    "Progress",
    "ReceptiveField",
    "RunLogSnapshot",
    "RunStatus",
    "Sample",
    "Schedule",
    "Segment",
    "Session",
    "SessionStateError",
    "StatsScope",
    "StepSeries",
    "TensorStatsSnapshot",
    "TimeTravelError",
    "TimeTravelJump",
    "TimeTravelStatus",
    "TrainingRestorer",
    "Unit",
    "UpdateFrequency",
    "WatchPerformance",
    "WatchSnapshot",
    "Way",
    "WeightContext",
    "histogram_edges",
    "load_moment",
    "start",
]
