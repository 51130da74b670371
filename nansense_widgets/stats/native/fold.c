/* Counts by bin and moments of float32 values in one go; `summary.py` does the same, slower, where this is not built.

   No Python in here: it is called through ctypes, which lets other threads of Python run meanwhile. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifndef SOURCE_HASH
#define SOURCE_HASH ""
#endif

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

/* Twice as fast where the processor has AVX2, which is found out when the library is loaded. */
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

enum { RAW = 2048, STRIDE = RAW + 16, SHIFT = 21, SIDE = 1024, SPECIAL = SIDE - 4, LANES = 4 };
enum { BLOCK = 4096, WORTH_TABLES = 8192 };
enum { COUNT, SUM, SQUARES, LOW, HIGH, ZEROS, MINUS_ZEROS, SPANS };

/* A row of counts is what `bits >> SHIFT` numbers: bins of positive values, then of negative ones. Of either sign the
   first bin holds zeros, the last four infinity and NaN. Rows are a little longer than their bins: 16 rows whose same
   bins lie powers of two apart would push each other out of the cache.

   A BLOCK of values stays in the first cache, to be read twice. */
static const uint32_t NEGATIVE = 0x80000000u, INFINITE = 0x7f800000u;

EXPORT const char *nansense_source_hash(void) { return SOURCE_HASH; }

/* ---------------------------------------------------------------- counting */

/* Two values at a time, as one load; which of them is first does not matter. */
static inline uint64_t pair(const uint32_t *bits) {
  uint64_t both;
  memcpy(&both, bits, sizeof both);
  return both;
}
static inline uint32_t bin(uint64_t both) { return (uint32_t)both >> SHIFT; }
static inline uint32_t bin2(uint64_t both) { return (uint32_t)(both >> (32 + SHIFT)); }

/* Four tables in turn: to count the same bin again, the processor need not wait for its last count. */
typedef uint32_t Table[4][STRIDE];

static void count(const uint32_t *bits, int64_t n, Table table) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    uint64_t a = pair(bits + i), b = pair(bits + i + 2);
    table[0][bin(a)]++;
    table[1][bin2(a)]++;
    table[2][bin(b)]++;
    table[3][bin2(b)]++;
  }
  for (; i < n; i++) table[0][bits[i] >> SHIFT]++;
}

/* For the same reason several runs at once, `apart` in memory, each into a row of its own. */
static inline void count_runs(const uint32_t *bits, int64_t n, int64_t apart, int streams, uint32_t *rows) {
  int64_t i = 0;
  for (; i + 2 <= n; i += 2) {
    uint64_t both[4];
    for (int s = 0; s < streams; s++) both[s] = pair(bits + s * apart + i);
    for (int s = 0; s < streams; s++) rows[s * STRIDE + bin(both[s])]++;
    for (int s = 0; s < streams; s++) rows[s * STRIDE + bin2(both[s])]++;
  }
  for (; i < n; i++)
    for (int s = 0; s < streams; s++) rows[s * STRIDE + (bits[s * apart + i] >> SHIFT)]++;
}

/* Counts the first `own` channels of `outer` times `size` values, each into its row. */
static void count_channels(const uint32_t *bits, int64_t outer, int64_t size, int64_t inner, int64_t own, uint32_t *rows) {
  if (inner == 1) {
    for (int64_t o = 0; o < outer; o++, bits += size) {
      int64_t c = 0;
      for (; c + 2 <= own; c += 2) {
        uint64_t both = pair(bits + c);
        rows[c * STRIDE + bin(both)]++;
        rows[(c + 1) * STRIDE + bin2(both)]++;
      }
      for (; c < own; c++) rows[c * STRIDE + (bits[c] >> SHIFT)]++;
    }
    return;
  }
  for (int64_t c = 0; c < own;) {
    int64_t left = own - c, streams = left == 5 ? 3 : left < 4 ? left : 4; /* five: three and two, not four and one */
    const uint32_t *at = bits + c * inner;
    uint32_t *row = rows + c * STRIDE;
    for (int64_t o = 0; o < outer; o++, at += size) {
      if (streams == 4) count_runs(at, inner, inner, 4, row);
      else if (streams == 3) count_runs(at, inner, inner, 3, row);
      else if (streams == 2) count_runs(at, inner, inner, 2, row);
      else count_runs(at, inner, inner, 1, row);
    }
    c += streams;
  }
}

/* ---------------------------------------------------------------- moments */

typedef double Doubles __attribute__((vector_size(8 * LANES)));

static inline Doubles differences(const float *x, double shift) {
  Doubles values = {x[0], x[1], x[2], x[3]};
  return values - shift;
}

/* Sums of two lanes at a time, so that one addition need not wait for the last. */
WIDE static void add_sums(const float *x, int64_t n, double shift, double *out) {
  Doubles sum = {0}, squares = {0}, sum2 = {0}, squares2 = {0};
  int64_t whole = n - n % (2 * LANES);
  for (int64_t i = 0; i < whole; i += 2 * LANES) {
    Doubles d = differences(x + i, shift), e = differences(x + i + LANES, shift);
    sum += d;
    sum2 += e;
    squares += d * d;
    squares2 += e * e;
  }
  sum += sum2;
  squares += squares2;
  for (int j = 0; j < LANES; j++) out[0] += sum[j], out[1] += squares[j];
  for (int64_t i = whole; i < n; i++) {
    double d = (double)x[i] - shift;
    out[0] += d;
    out[1] += d * d;
  }
}

static float as_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static void add_range(double low, double high, double *out) {
  if (low < out[LOW]) out[LOW] = low;
  if (high > out[HIGH]) out[HIGH] = high;
}

/* Ends and zeros of values without NaN, by their bits: among positive values, larger bits are larger values; among
   negative ones, whose bits are larger than those of all positive ones, they are smaller values. */
WIDE static void add_ends(const uint32_t *bits, int64_t n, double *out) {
  int32_t top = INT32_MIN, zeros = 0;
  uint32_t least = UINT32_MAX, largest = 0;
  for (int64_t i = 0; i < n; i++) {
    int32_t whole = (int32_t)bits[i];
    top = whole > top ? whole : top;
    largest = bits[i] > largest ? bits[i] : largest;
    least = bits[i] < least ? bits[i] : least;
    zeros += bits[i] == 0;
  }
  out[ZEROS] += zeros;
  add_range(as_float(largest >= NEGATIVE ? largest : least), as_float(top >= 0 ? (uint32_t)top : least), out);
}

static void add_one_by_one(const uint32_t *bits, int64_t n, double shift, double *out) {
  for (int64_t i = 0; i < n; i++) {
    if ((bits[i] & ~NEGATIVE) >= INFINITE) continue;
    double value = as_float(bits[i]), d = value - shift;
    out[COUNT] += 1;
    out[SUM] += d;
    out[SQUARES] += d * d;
    out[ZEROS] += bits[i] == 0;
    add_range(value, value, out);
  }
}

static void add_block(const float *x, int64_t n, double shift, double *out) {
  double sums[2] = {0, 0};
  add_sums(x, n, shift, sums);
  if (!isfinite(sums[1])) { /* squares of finite floats do not overflow */
    add_one_by_one((const uint32_t *)x, n, shift, out);
    return;
  }
  out[COUNT] += (double)n;
  out[SUM] += sums[0];
  out[SQUARES] += sums[1];
  add_ends((const uint32_t *)x, n, out);
}

static void add_moments(const float *x, int64_t n, double shift, double *out) {
  for (int64_t at = 0; at < n; at += BLOCK) add_block(x + at, n - at < BLOCK ? n - at : BLOCK, shift, out);
}

static void begin_moments(double *out) {
  for (int i = 0; i < SPANS; i++) out[i] = 0;
  out[LOW] = INFINITY;
  out[HIGH] = -INFINITY;
}

WIDE static double count_minus_zeros(const uint32_t *bits, int64_t n) {
  int64_t found = 0;
  for (int64_t at = 0; at < n; at += BLOCK) {
    int32_t some = 0;
    int64_t end = n - at < BLOCK ? n : at + BLOCK;
    for (int64_t i = at; i < end; i++) some += bits[i] == NEGATIVE;
    found += some;
  }
  return (double)found;
}

/* Number, sum and sum of squares of the differences from `shift`, least and largest of the finite values, +0 and
   -0. */
EXPORT void nansense_moments(const float *x, int64_t n, double shift, double *out) {
  begin_moments(out);
  add_moments(x, n, shift, out);
  out[MINUS_ZEROS] = count_minus_zeros((const uint32_t *)x, n);
}

/* The sum of (x - y)^2; `y` may be NULL, for zeros. */
WIDE static double squares(const float *x, const float *y, int64_t n) {
  Doubles sum = {0}, sum2 = {0};
  int64_t whole = n - n % (2 * LANES);
  for (int64_t i = 0; i < whole; i += 2 * LANES) {
    Doubles d = differences(x + i, 0), e = differences(x + i + LANES, 0);
    if (y) d -= differences(y + i, 0), e -= differences(y + i + LANES, 0);
    sum += d * d;
    sum2 += e * e;
  }
  sum += sum2;
  double all = 0;
  for (int j = 0; j < LANES; j++) all += sum[j];
  for (int64_t i = whole; i < n; i++) {
    double d = (double)x[i] - (y ? (double)y[i] : 0);
    all += d * d;
  }
  return all;
}

/* Euclidean norms of `tensors` differences; see `squares`. */
EXPORT void nansense_norms(const float *const *x, const float *const *y, const int64_t *n, int64_t tensors, double *out) {
  for (int64_t i = 0; i < tensors; i++) out[i] = sqrt(squares(x[i], y[i], n[i]));
}

/* ---------------------------------------------------------------- both */

WIDE static void add_row(uint32_t *sum, const uint32_t *row, int64_t n) {
  for (int64_t j = 0; j < n; j++) sum[j] += row[j];
}

/* Bins of one sign that may be used. */
static int64_t used_bins(const double *out, int64_t n) {
  if (out[COUNT] != (double)n) return SIDE;
  float size = (float)fmax(fabs(out[LOW]), fabs(out[HIGH]));
  uint32_t bits;
  memcpy(&bits, &size, sizeof bits);
  return (bits >> SHIFT) + 1;
}

/* Counts all values into the first row of `counts`, those of the first `own` channels each into one of the next, and if
   there are others too, those into one more. Values lie as (outer, channels, inner). */
static void count_values(const uint32_t *bits, int64_t outer, int64_t channels, int64_t inner, int64_t own, double shift,
                         uint32_t *counts, double *out) {
  int64_t alone = channels == 1 ? 0 : own; /* one channel is all of them */
  int64_t size = channels * inner, n = outer * size, width = alone ? size : 1, rest = size - alone * inner;
  int64_t steps = n / width, step = width < BLOCK ? BLOCK / width : 1; /* of `width` values; in a block */
  uint32_t *rows = counts + STRIDE, *others = alone ? rows + alone * STRIDE : counts;
  Table table;
  int tables = (alone ? outer * rest : n) >= WORTH_TABLES;
  if (tables) memset(table, 0, sizeof table);
  for (int64_t at = 0; at < steps; at += step) {
    int64_t some = steps - at < step ? steps - at : step;
    const uint32_t *first = bits + at * width, *run = first + alone * inner;
    if (alone) count_channels(first, some, size, inner, alone, rows);
    int64_t runs = alone ? some : 1, length = alone ? rest : some;
    for (int64_t r = 0; r < runs; r++, run += width) {
      if (tables) count(run, length, table);
      else
        for (int64_t i = 0; i < length; i++) others[run[i] >> SHIFT]++;
    }
    add_moments((const float *)first, some * width, shift, out);
  }
  int64_t used = used_bins(out, n);
  for (int side = 0; side < RAW; side += SIDE) {
    for (int k = 0; k < 4 && tables; k++) add_row(others + side, table[k] + side, used);
    for (int64_t r = 0; alone && r < alone + (rest > 0); r++) add_row(counts + side, rows + r * STRIDE + side, used);
    if (own && !alone) add_row(rows + side, counts + side, used);
  }
}

/* Spans of bins, first of negative and then of positive values: of either from one bin up to another. */
typedef struct {
  int64_t begin, end, begin2, end2;
} Spans;

static int64_t *copy(int64_t *to, const uint32_t *from, int64_t n) {
  for (int64_t j = 0; j < n; j++) to[j] = from[j];
  return to + n;
}

/* Writes the counts of rows to `taken`: of each the bins of -0 and +0; of each those of a span of negative values;
   of each those of a span of positive values; of each those of infinity and NaN of either sign. */
WIDE static void take(const uint32_t *counts, int64_t rows, Spans spans, int64_t *taken) {
  for (int64_t r = 0; r < rows; r++) taken = copy(copy(taken, counts + r * STRIDE + SIDE, 1), counts + r * STRIDE, 1);
  for (int64_t r = 0; r < rows; r++)
    taken = copy(taken, counts + r * STRIDE + SIDE + spans.begin, spans.end - spans.begin);
  for (int64_t r = 0; r < rows; r++)
    taken = copy(taken, counts + r * STRIDE + spans.begin2, spans.end2 - spans.begin2);
  for (int64_t r = 0; r < rows; r++)
    taken = copy(copy(taken, counts + r * STRIDE + SIDE + SPECIAL, 4), counts + r * STRIDE + SPECIAL, 4);
}

/* Zeros in their place. */
static void clear(uint32_t *counts, int64_t rows, Spans spans) {
  for (int64_t r = 0; r < rows; r++) {
    uint32_t *row = counts + r * STRIDE, *below = row + SIDE;
    row[0] = below[0] = 0;
    memset(below + spans.begin, 0, (size_t)(spans.end - spans.begin) * sizeof *row);
    memset(row + spans.begin2, 0, (size_t)(spans.end2 - spans.begin2) * sizeof *row);
    memset(below + SPECIAL, 0, 4 * sizeof *row);
    memset(row + SPECIAL, 0, 4 * sizeof *row);
  }
}

/* A span that holds the bins of one sign that are used, without those of zeros, infinity and NaN, and the one given;
   one that begins where it ends is none. */
static void widen(const uint32_t *side, int64_t *begin, int64_t *end) {
  int64_t a = 1, b = SPECIAL;
  while (a < b && !side[a]) a++;
  while (b > a && !side[b - 1]) b--;
  if (a == b) return;
  int none = *begin == *end;
  if (none || a < *begin) *begin = a;
  if (none || b > *end) *end = b;
}

/* Counts values, which lie as (outer, channels, inner); there are fewer than 2^32. `counts`: (own + 2) rows of STRIDE
   that hold zeros, before and after. `taken`: see `take`; first the row of all values, then those of the first `own`
   channels. `out`: see `nansense_moments`, and the spans of `taken`, which hold at least those given. */
EXPORT void nansense_fold(const float *x, int64_t outer, int64_t channels, int64_t inner, int64_t own, double shift,
                          int64_t begin, int64_t end, int64_t begin2, int64_t end2, uint32_t *counts, int64_t *taken,
                          double *out) {
  const uint32_t *bits = (const uint32_t *)x;
  begin_moments(out);
  count_values(bits, outer, channels, inner, own, shift, counts, out);
  if (counts[SIDE]) out[MINUS_ZEROS] = count_minus_zeros(bits, outer * channels * inner);
  Spans spans = {begin, end, begin2, end2};
  widen(counts + SIDE, &spans.begin, &spans.end);
  widen(counts, &spans.begin2, &spans.end2);
  take(counts, own + 1, spans, taken);
  clear(counts, own + 2, spans);
  out[SPANS] = (double)spans.begin, out[SPANS + 1] = (double)spans.end;
  out[SPANS + 2] = (double)spans.begin2, out[SPANS + 3] = (double)spans.end2;
}

/* The rows of the first `own` channels alone, of values whose used bins are known. */
EXPORT void nansense_channels(const float *x, int64_t outer, int64_t channels, int64_t inner, int64_t own, int64_t begin,
                              int64_t end, int64_t begin2, int64_t end2, uint32_t *counts, int64_t *taken) {
  Spans spans = {begin, end, begin2, end2};
  count_channels((const uint32_t *)x, outer, channels * inner, inner, own, counts);
  take(counts, own, spans, taken);
  clear(counts, own, spans);
}

/* Half a block of values beside the other half: the sum of products of both, each after a key of its own has been added
   (NH: Black et al. 1999, "UMAC: Fast and secure message authentication"). */
WIDE static uint64_t products(const uint32_t *bits, int64_t half) {
  uint64_t sum = 0;
  uint32_t key = 0x9e3779b1u, key2 = 0x85ebca6bu;
  for (int i = 0; i < (int)half; i++) {
    uint32_t a = bits[i] + key, b = bits[half + i] + key2;
    sum += (uint64_t)a * b;
    key += 0x9e3779b1u;
    key2 += 0x85ebca6bu;
  }
  return sum;
}

/* A number that tells values from others: any change of theirs changes it, but for about one in 2^32. They lie in `runs`
   of `length`, `stride` apart. */
EXPORT uint64_t nansense_checksum(const float *x, int64_t runs, int64_t stride, int64_t length) {
  const uint32_t *bits = (const uint32_t *)x;
  uint64_t sum = 0;
  for (int64_t r = 0; r < runs; r++, bits += stride)
    for (int64_t at = 0; at < length; at += BLOCK) {
      int64_t n = length - at < BLOCK ? length - at : BLOCK;
      uint64_t some = products(bits + at, n / 2);
      if (n % 2) some += bits[at + n - 1] * 0x9e3779b97f4a7c15u;
      sum = (sum ^ (sum >> 29)) * 0xbf58476d1ce4e5b9u + some;
    }
  return sum;
}
