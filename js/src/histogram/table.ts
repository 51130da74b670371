// The statistics of a layer as a table: a row for each phase and epoch; on a narrow card a column for each tensor.

import { focusedNear, h, setText } from "../lib/dom";
import { formatCount, formatScale, formatValue } from "../lib/format";
import type { Numbers, StatsRow } from "../lib/protocol_statistics";

export interface TableEvents {
  draw(key: string): void;
  /** Compare with this row; "" with none. */
  compare(key: string): void;
}

type Column = "mean" | "std" | "median" | "min" | "max" | "dead" | "bad";

const COLUMNS: [Column, string, string][] = [
  ["mean", "mean", "Mean of the finite values"],
  ["std", "std", "Standard deviation of the finite values"],
  ["median", "median", "Middle of the bin that holds the median; a bin is at most a quarter of its lower edge wide"],
  ["min", "min", "Least finite value"],
  ["max", "max", "Largest finite value"],
  ["dead", "dead", "Channels whose every value was zero, of all channels"],
  ["bad", "not finite", "Values that are NaN or infinite"],
];

const GROUPS = ["activations", "gradients"] as const;
const BATCH = "batch";

export function rowLabel(row: StatsRow): string {
  return row.key === BATCH ? "current batch" : `${row.phase} \u00b7 epoch ${row.epoch + 1}`;
}

export function batchesText({ key, phase, epoch, batches, total, running }: StatsRow, noun = ""): string {
  if (key === BATCH) return `${phase}, epoch ${epoch + 1}`;
  const of = total === null || total === batches ? "" : ` of ${formatCount(total)}`;
  return `${formatCount(batches)}${of}${noun}${running ? " so far" : ""}`;
}

function cellText(numbers: Numbers, column: Column): string {
  if (numbers.missing) return column === "dead" || column === "bad" ? "" : "\u2013";
  if (column === "dead") return numbers.dead === null ? "" : `${numbers.dead}/${numbers.channels}`;
  if (column === "bad") return [[numbers.nan, "NaN"], [numbers.posinf, "+Inf"], [numbers.neginf, "-Inf"]].filter(([n]) => n).map(([n, name]) => `${formatCount(n as number)} ${name}`).concat(numbers.since === null ? [] : [`since batch ${numbers.since + 1}`]).join("\n");
  const value = numbers[column];
  return value === null ? "\u2013" : formatScale(value);
}

function paintCell(cell: HTMLElement, numbers: Numbers, column: Column): void {
  setText(cell, cellText(numbers, column));
  const marked = (column === "dead" && (numbers.dead ?? 0) > 0) || (column === "bad" && numbers.nan + numbers.posinf + numbers.neginf > 0);
  cell.classList.toggle("marked", marked && !numbers.missing);
  cell.title = column === "dead" || column === "bad" || numbers.missing ? numbers.missing : formatValue(numbers[column] ?? NaN);
}

/** Columns that say something: those of values that are not finite only where there are some. */
function columnsFor(rows: StatsRow[], group: (typeof GROUPS)[number]): typeof COLUMNS {
  const bad = rows.some((row) => row[group].nan + row[group].posinf + row[group].neginf > 0);
  const dead = rows.some((row) => row[group].dead !== null);
  return COLUMNS.filter(([column]) => (column !== "bad" || bad) && (column !== "dead" || (dead && group === "activations")));
}

function usedColumns(rows: StatsRow[]): typeof COLUMNS {
  return COLUMNS.filter(([name]) => GROUPS.some((group) => columnsFor(rows, group).some(([known]) => known === name)));
}

/** Tensors side by side, under each other, or in columns. */
export type TableForm = "wide" | "mid" | "narrow";

let tables = 0;

export class StatsTable {
  readonly element = h("div", { class: "stats" });
  private readonly name = `nsw-stats-${++tables}`;
  private shape = "";
  private cells: ((rows: Map<string, StatsRow>) => void)[] = [];
  private inputs = new Map<string, { draw: HTMLInputElement; compare: HTMLInputElement }>();

  constructor(
    private readonly layer: string,
    private readonly events: TableEvents,
  ) {}

  show(rows: StatsRow[], chosen: string, compared: string, form: TableForm): void {
    // Built anew only when rows or columns come or go; numbers change in place.
    const shape = JSON.stringify([form, form === "narrow" ? chosen : "", rows.map(({ key }) => key), GROUPS.map((group) => columnsFor(rows, group).map(([name]) => name))]);
    if (shape !== this.shape) {
      const focus = focusedNear(this.element);
      const focused = focus && this.element.contains(focus) ? focus.getAttribute("aria-label") : null;
      this.shape = shape;
      this.cells = [];
      this.inputs.clear();
      this.element.replaceChildren(...(form === "narrow" ? this.narrow(rows, chosen) : [form === "wide" ? this.wide(rows) : this.mid(rows)]));
      if (focused) this.element.querySelector<HTMLElement>(`[aria-label="${CSS.escape(focused)}"]`)?.focus();
    }
    const byKey = new Map(rows.map((row) => [row.key, row]));
    for (const paint of this.cells) paint(byKey);
    for (const [key, { draw, compare }] of this.inputs) {
      draw.checked = key === chosen;
      compare.checked = key === compared && key !== chosen;
      compare.disabled = key === chosen;
    }
  }

  private wide(rows: StatsRow[]): HTMLElement {
    const groups = GROUPS.map((group) => ({ group, columns: columnsFor(rows, group) }));
    return h(
      "table",
      { "aria-label": `Statistics of ${this.layer}` },
      h(
        "thead",
        {},
        h("tr", {}, h("td", { colspan: 2 }), ...groups.map(({ group, columns }) => h("th", { scope: "colgroup", colspan: columns.length, class: "side" }, group)), h("td")),
        h(
          "tr",
          {},
          h("th", { scope: "col", class: "first" }, "drawn"),
          h("th", { scope: "col", title: "Batches that were folded in" }, "batches"),
          ...groups.flatMap(({ columns }) => columns.map(([, text, title], i) => h("th", { scope: "col", title, class: i ? "" : "side" }, text))),
          h("th", { scope: "col", title: "Draw this one too, as an outline" }, "compare"),
        ),
      ),
      h(
        "tbody",
        {},
        ...rows.map((row) => {
          const { draw, compare } = this.choices(row);
          const batches = this.cell(row.key, (cell, current) => {
            setText(cell, batchesText(current));
            cell.title = current.note;
          });
          const numbers = groups.flatMap(({ group, columns }) =>
            columns.map(([column], i) => this.cell(row.key, (cell, current) => paintCell(cell, current[group], column), i ? "" : "side")),
          );
          return h("tr", {}, h("th", { scope: "row", class: "first" }, h("label", {}, draw, rowLabel(row))), batches, ...numbers, h("td", { class: "cmp" }, compare));
        }),
      ),
    );
  }

  private mid(rows: StatsRow[]): HTMLElement {
    const columns = usedColumns(rows);
    const numbers = (key: string, group: (typeof GROUPS)[number]): HTMLElement[] =>
      columns.map(([column]) => this.cell(key, (cell, current) => (group === "gradients" && column === "dead" ? undefined : paintCell(cell, current[group], column))));
    return h(
      "table",
      { "aria-label": `Statistics of ${this.layer}` },
      h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "first" }, "drawn"), h("th", { scope: "col", class: "first" }, "tensor"), ...columns.map(([, text, title]) => h("th", { scope: "col", title }, text)), h("th", { scope: "col", title: "Draw this one too, as an outline" }, "compare"))),
      h(
        "tbody",
        {},
        ...rows.flatMap((row) => {
          const { draw, compare } = this.choices(row);
          const batches = this.cell(row.key, (cell, current) => setText(cell, batchesText(current, " batches")), "mut first");
          return [
            h("tr", {}, h("th", { scope: "row", class: "first" }, h("label", {}, draw, rowLabel(row))), h("th", { scope: "row", class: "first" }, "activations"), ...numbers(row.key, "activations"), h("td", { class: "cmp" }, compare)),
            h("tr", { class: "second" }, batches, h("th", { scope: "row", class: "first" }, "gradients"), ...numbers(row.key, "gradients"), h("td")),
          ];
        }),
      ),
    );
  }

  private narrow(rows: StatsRow[], chosen: string): HTMLElement[] {
    const list = h(
      "ul",
      { class: "sources", "aria-label": `Phases and epochs of ${this.layer}` },
      ...rows.map((row) => {
        const { draw, compare } = this.choices(row);
        const batches = this.cell(row.key, (cell, current) => setText(cell, batchesText(current, " batches")), "mut", "span");
        return h("li", {}, h("label", {}, draw, rowLabel(row)), batches, h("label", { class: "cmp" }, compare, "compare"));
      }),
    );
    if (!chosen) return [list];
    const columns = usedColumns(rows);
    const table = h(
      "table",
      { "aria-label": `Statistics of ${this.layer}` },
      h("thead", {}, h("tr", {}, h("td"), ...GROUPS.map((group) => h("th", { scope: "col" }, group)))),
      h(
        "tbody",
        {},
        ...columns.map(([column, text, title]) =>
          h("tr", {}, h("th", { scope: "row", class: "first", title }, text), ...GROUPS.map((group) => this.cell(chosen, (cell, current) => (group === "gradients" && column === "dead" ? undefined : paintCell(cell, current[group], column))))),
        ),
      ),
    );
    return [list, table];
  }

  private cell(key: string, paint: (cell: HTMLElement, row: StatsRow) => void, cls = "", tag: "td" | "span" = "td"): HTMLElement {
    const cell = h(tag, { class: cls });
    this.cells.push((rows) => {
      const row = rows.get(key);
      if (row) paint(cell, row);
    });
    return cell;
  }

  private choices(row: StatsRow): { draw: HTMLInputElement; compare: HTMLInputElement } {
    const label = rowLabel(row);
    const draw = h("input", { type: "radio", name: this.name, "aria-label": `Draw ${label}` });
    const compare = h("input", { type: "checkbox", "aria-label": `Compare with ${label}` });
    draw.addEventListener("change", () => this.events.draw(row.key));
    compare.addEventListener("change", () => this.events.compare(compare.checked ? row.key : ""));
    const both = { draw, compare };
    this.inputs.set(row.key, both);
    return both;
  }
}
