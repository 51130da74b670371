"""How training proceeds: commands, from any thread."""

from __future__ import annotations

from nansense_widgets.run.frequency import UpdateFrequency
from nansense_widgets.run.mode import Mode
from nansense_widgets.session.locking import nothing, unless_locked
from nansense_widgets.session.standing import Standing

__all__ = ["Steering"]


class Steering(Standing):
    """Commands return at once; `wait_until_paused` waits for what they lead to."""

    @unless_locked(nothing)
    def step_batch(self) -> None:
        """Run one batch, show it and pause.

        Given while training runs, this command and those below change how it goes on. No-op on a locked
        session.
        """
        self._go(Mode.STEP)

    @unless_locked(nothing)
    def step_phase(self) -> None:
        """Run to the first batch of the next phase and pause before it.

        What is shown then is the last batch of the finished phase. Where the phase's length is not known
        (no `len(loader)`, first epoch) every batch is captured, because each may be the last. No-op on a
        locked session.
        """
        self._go(Mode.UNTIL_PHASE_CHANGE)

    @unless_locked(nothing)
    def step_epoch(self) -> None:
        """Run to the first batch of the next epoch and pause before it; as `step_phase` otherwise.

        No-op on a locked session.
        """
        self._go(Mode.UNTIL_EPOCH_CHANGE)

    @unless_locked(nothing)
    def step_until_position(self, phase: str | int, epoch: int, batch_idx: int) -> None:
        """Run up to a batch, show it and pause after it. No-op on a locked session.

        Args:
            phase: its name, or its index in `schedule.phase_order`.
            epoch: counted from 0.
            batch_idx: counted from 0 within the phase and epoch.

        Raises:
            TypeError: for an argument of another type.
            ValueError: for a position outside the known schedule, or one that training has passed. A phase
                that has not been seen may still come, so any name is taken; a batch that never comes is
                never reached.
        """
        if self._enabled:
            self._check_open()
            if self._run.no_loop:
                self._run.control.stand()
            else:
                self._run.go_until(phase, epoch, batch_idx)

    @unless_locked(nothing)
    def step_run(self) -> None:
        """Run to the last batch of the run, show it and pause.

        Which batch is the last has to be known: the number of epochs, and the phases with their lengths, as
        declared or as learned in the first epoch. Otherwise training runs to its end without a pause. No-op
        on a locked session.
        """
        self._go(Mode.UNTIL_END)

    @unless_locked(nothing)
    def detach(self) -> None:
        """Run without ever pausing or capturing by itself, at full speed, until another command.

        No-op on a locked session.
        """
        self._go(Mode.DETACH)

    @unless_locked(nothing)
    def stop(self) -> None:
        """Pause at the next batch, which is captured; no effect while paused or within a single step.

        No-op on a locked session.
        """
        if self._enabled:
            self._run.control.stop()

    @unless_locked(nothing)
    def cancel(self) -> None:
        """Withdraw a `stop` or `request_snapshot` that still waits; training goes on as before it.

        A receptive field that is being measured is no longer measured. No-op on a locked session.
        """
        if self._enabled:
            self._run.control.cancel()
            if self._probe is not None and self._probe.is_measuring:
                self._probe.drop_field()

    def request_snapshot(self) -> None:
        """Have the next batch publish a snapshot, without pausing. Works on a locked session too.

        A frozen moment has no next batch: nothing happens.
        """
        if self._enabled and not self._run.no_loop:
            self._check_open()
            self._run.control.request_refresh()

    @unless_locked(nothing)
    def set_update_frequency(self, *, unit: str, n: int = 1, phase: str | None = None) -> None:
        """How often views refresh while training runs. No-op on a locked session.

        Args:
            unit: `"epoch"`: on the first batch of every `n`-th epoch (the default, with `n=1`);
                `"batch"`: on every `n`-th batch, counting only those of `phase` if one is given.
            n: at least 1.
            phase: only with `unit="batch"`.

        Raises:
            TypeError, ValueError: for a wrong argument, naming it, or a phase that is not known.
        """
        self._run.loop.frequency = UpdateFrequency.checked(unit, n, phase, self.schedule.phase_order)
        self._hub.changed()

    def _go(self, mode: Mode) -> None:
        if not self._enabled:
            return
        self._check_open()
        if self._run.no_loop:  # where a moment stands, it stands again
            self._run.control.stand()
        else:
            self._run.go(mode)
