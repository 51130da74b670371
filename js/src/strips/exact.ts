// Exact values of tiles, fetched from the kernel in pieces and kept for one snapshot.

import type { ViewHost } from "../cards/view";
import { floatsOf, type Floats } from "../lib/pixels";
import type { Exact, ExactAsk, Pair, Window } from "../lib/protocol";

/** The kernel sends at most this many values at once. */
export const MOST_VALUES = 262_144;
const MOST_TILES = 96;

export interface TileKey {
  /** Which tensor. */
  kind: string;
  /** What else the values depend on: call, output, sample and so on. */
  of: string;
  channel: number;
  full: Pair;
}

/** Rows and columns of the pieces in which a tile of this size is fetched. */
export function pieceSize([rows, columns]: Pair, most = MOST_VALUES): Pair {
  const wide = Math.max(1, Math.min(columns, most));
  return [Math.max(1, Math.min(rows, Math.floor(most / wide))), wide];
}

/** How values are asked for: at most so many at once, and in which words. */
export interface Asking {
  most: number;
  ask(key: TileKey, window: Window | null): unknown;
}

const STRIPS: Asking = { most: MOST_VALUES, ask: ({ kind, channel }, window): ExactAsk => ({ kind, channel, window }) };

interface Piece {
  values: Floats | null;
  missing: string;
}

class ExactTile {
  private readonly piece: Pair;
  private readonly pieces = new Map<string, Piece>();

  constructor(
    private readonly host: ViewHost,
    private readonly key: TileKey,
    private readonly snapshot: number,
    private readonly arrived: () => void,
    private readonly asking: Asking,
  ) {
    this.piece = pieceSize(key.full, asking.most);
  }

  /** The value, or undefined while it is not here; asking fetches the piece around it. */
  at(row: number, col: number): number | undefined {
    const [tall, wide] = this.piece;
    const top = row - (row % tall);
    const left = col - (col % wide);
    const { values } = this.request(top, left);
    return values?.[(row - top) * (Math.min(left + wide, this.key.full[1]) - left) + col - left];
  }

  /** All values in one array, or null while some are missing. */
  all(): Floats | null {
    const [rows, columns] = this.key.full;
    const [tall, wide] = this.piece;
    const parts: { top: number; left: number; values: Floats }[] = [];
    let complete = true;
    for (let top = 0; top < rows; top += tall) {
      for (let left = 0; left < columns; left += wide) {
        const { values } = this.request(top, left);
        if (values) parts.push({ top, left, values });
        else complete = false;
      }
    }
    const first = parts[0];
    if (!complete || !first) return null;
    if (parts.length === 1) return first.values;
    const whole = new Float64Array(rows * columns);
    for (const { top, left, values } of parts) {
      const width = Math.min(left + wide, columns) - left;
      for (let i = 0; i < values.length; i++) whole[(top + Math.floor(i / width)) * columns + left + (i % width)] = values[i] ?? NaN;
    }
    return whole;
  }

  private request(top: number, left: number): Piece {
    const name = `${top},${left}`;
    const known = this.pieces.get(name);
    if (known) return known;
    const piece: Piece = { values: null, missing: "" };
    this.pieces.set(name, piece);
    const { full } = this.key;
    const window: Window | null = full[0] * full[1] <= this.asking.most ? null : [top, Math.min(full[0], top + this.piece[0]), left, Math.min(full[1], left + this.piece[1])];
    this.host.fetch<Exact>(this.asking.ask(this.key, window)).then(
      ({ reply, buffers }) => {
        // A later snapshot's values would not belong to the picture on screen.
        if (reply.missing || reply.snapshot !== this.snapshot) piece.missing = reply.missing || "of another snapshot";
        else piece.values = floatsOf(buffers[0], reply.dtype);
        this.arrived();
      },
      () => undefined,
    );
    return piece;
  }
}

export class ExactStore {
  private tiles = new Map<string, ExactTile>();
  private snapshot = -1;

  constructor(
    private readonly host: ViewHost,
    private readonly arrived: () => void,
    private readonly asking: Asking = STRIPS,
  ) {}

  /** Values of an earlier snapshot are of no use any more, nor are those of an earlier probe: `again`. */
  begin(snapshot: number, again = false): void {
    if (snapshot === this.snapshot && !again) return;
    this.snapshot = snapshot;
    this.tiles.clear();
  }

  tile(key: TileKey): ExactTile {
    const name = `${key.kind} ${key.channel} ${key.of}`;
    let tile = this.tiles.get(name);
    if (!tile) {
      tile = new ExactTile(this.host, key, this.snapshot, this.arrived, this.asking);
      this.tiles.set(name, tile);
      const oldest = this.tiles.keys().next().value;
      if (this.tiles.size > MOST_TILES && oldest !== undefined) this.tiles.delete(oldest);
    }
    return tile;
  }
}
