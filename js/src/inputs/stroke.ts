// Which pixels a stroke of the brush covers, and where in the input they lie.

/** Row and column of a pixel as it is shown. */
export type Cell = readonly [row: number, column: number];

export const SIZES = [1, 2, 3, 5] as const;

/** The pixels between two, both of them included (Bresenham). */
export function lineCells([row, column]: Cell, [toRow, toColumn]: Cell): Cell[] {
  const down = Math.abs(toRow - row);
  const across = Math.abs(toColumn - column);
  const rowStep = Math.sign(toRow - row);
  const columnStep = Math.sign(toColumn - column);
  const cells: Cell[] = [];
  let error = across - down;
  for (;;) {
    cells.push([row, column]);
    if (row === toRow && column === toColumn) return cells;
    const twice = 2 * error;
    if (twice > -down) {
      error -= down;
      column += columnStep;
    }
    if (twice < across) {
      error += across;
      row += rowStep;
    }
  }
}

/** The square of pixels under a brush; of an even size, the pixel itself is at the upper left of its middle. */
export function brushCells([row, column]: Cell, size: number, rows: number, columns: number): Cell[] {
  const before = Math.floor((size - 1) / 2);
  const cells: Cell[] = [];
  for (let y = row - before; y < row - before + size; y++) {
    for (let x = column - before; x < column - before + size; x++) if (y >= 0 && x >= 0 && y < rows && x < columns) cells.push([y, x]);
  }
  return cells;
}

/** One press of the brush, from where it went down to where it is lifted. */
export class Stroke {
  private last: Cell | null = null;
  private readonly covered = new Set<number>();

  constructor(
    private readonly size: number,
    private readonly rows: number,
    private readonly columns: number,
  ) {}

  /** The brush is here now: pixels that this stroke had not covered before. */
  to(cell: Cell): Cell[] {
    const fresh: Cell[] = [];
    for (const on of lineCells(this.last ?? cell, cell)) {
      for (const under of brushCells(on, this.size, this.rows, this.columns)) {
        const key = under[0] * this.columns + under[1];
        if (this.covered.has(key)) continue;
        this.covered.add(key);
        fresh.push(under);
      }
    }
    this.last = cell;
    return fresh;
  }
}

/**
 * Places in the input as `add_perturbation` takes them, a list an axis: a shown pixel stands for `pool` by `pool`
 * values. `slice` is that of a volume; null where there is none.
 */
export function placesOf(cells: readonly Cell[], pool: number, [rows, columns]: readonly [number, number], slice: number | null): number[][] {
  const down: number[] = [];
  const across: number[] = [];
  for (const [row, column] of cells) {
    for (let y = row * pool; y < Math.min(rows, (row + 1) * pool); y++) {
      for (let x = column * pool; x < Math.min(columns, (column + 1) * pool); x++) {
        down.push(y);
        across.push(x);
      }
    }
  }
  return slice === null ? [down, across] : [[slice], down, across];
}
