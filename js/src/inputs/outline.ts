// The outline of a set of pixels, as a path in pixel units.

export function outlinePath(cells: readonly (readonly [number, number])[]): string {
  const has = new Set(cells.map(([row, column]) => `${row},${column}`));
  let path = "";
  for (const [row, column] of cells) {
    if (!has.has(`${row - 1},${column}`)) path += `M${column} ${row}h1`;
    if (!has.has(`${row + 1},${column}`)) path += `M${column} ${row + 1}h1`;
    if (!has.has(`${row},${column - 1}`)) path += `M${column} ${row}v1`;
    if (!has.has(`${row},${column + 1}`)) path += `M${column + 1} ${row}v1`;
  }
  return path;
}
