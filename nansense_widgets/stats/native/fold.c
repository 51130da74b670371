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

enum { RAW = 2048, STRIDE = RAW + 16, SHIFT = 21, SIGN = 1024, LANES = 4, WORTH_TABLES = 8192 };
enum { COUNT, SUM, SQUARES, LOW, HIGH, ZEROS, MINUS_ZEROS, SPANS };

/* Rows are a little longer than their bins: 16 rows whose same bins lie powers of two apart would push each other
   out of the cache. */
static const int32_t MAGNITUDE = 0x7fffffff, INFINITE = 0x7f800000;

EXPORT const char *nansense_source_hash(void) { return SOURCE_HASH; }

/* Four tables in turn: to count the same bin again, the processor need not wait for its last count. */
typedef uint32_t Table[4][STRIDE];

static inline uint32_t bin(uint32_t bits) { return (bits >> SHIFT) ^ SIGN; } /* negative values come first */

static void count(const uint32_t *bits, int64_t n, Table table) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    table[0][bin(bits[i])]++;
    table[1][bin(bits[i + 1])]++;
    table[2][bin(bits[i + 2])]++;
    table[3][bin(bits[i + 3])]++;
  }
  for (; i < n; i++) table[0][bin(bits[i])]++;
}

/* Counts `runs` runs of `length` values, `stride` apart, into one row. */
static void count_row(const uint32_t *bits, int64_t runs, int64_t stride, int64_t length, uint32_t *row) {
  if (runs * length < WORTH_TABLES) {
    for (int64_t r = 0; r < runs; r++)
      for (int64_t i = 0; i < length; i++) row[bin(bits[r * stride + i])]++;
    return;
  }
  Table table;
  memset(table, 0, sizeof table);
  for (int64_t r = 0; r < runs; r++) count(bits + r * stride, length, table);
  for (int j = 0; j < RAW; j++) row[j] += table[0][j] + table[1][j] + table[2][j] + table[3][j];
}

static void one(float value, double shift, double *out) {
  double d = (double)value - shift;
  out[COUNT] += 1;
  out[SUM] += d;
  out[SQUARES] += d * d;
  if (value < out[LOW]) out[LOW] = value;
  if (value > out[HIGH]) out[HIGH] = value;
}

typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef double Doubles __attribute__((vector_size(8 * LANES)));

static inline Doubles differences(const float *x, double shift) {
  Floats values;
  memcpy(&values, x, sizeof values);
  return __builtin_convertvector(values, Doubles) - shift;
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
  for (int j = 0; j < LANES; j++) out[SUM] += sum[j], out[SQUARES] += squares[j];
  for (int64_t i = whole; i < n; i++) {
    double d = (double)x[i] - shift;
    out[SUM] += d;
    out[SQUARES] += d * d;
  }
}

/* A float's bits as an integer of the same order, and back: it is its own inverse. */
static inline int32_t ordered(int32_t bits) { return bits ^ ((bits >> 31) & MAGNITUDE); }

static float from_ordered(int32_t key) {
  int32_t bits = ordered(key);
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

WIDE static void add_block(const float *x, int64_t n, double shift, double *out) {
  const int32_t *bits = (const int32_t *)x;
  int32_t zeros = 0, minus_zeros = 0, special = 0, low = INT32_MAX, high = INT32_MIN;
  for (int64_t i = 0; i < n; i++) {
    int32_t key = ordered(bits[i]);
    zeros += bits[i] == 0;
    minus_zeros += bits[i] == INT32_MIN;
    special += (bits[i] & MAGNITUDE) >= INFINITE;
    low = key < low ? key : low;
    high = key > high ? key : high;
  }
  out[ZEROS] += zeros;
  out[MINUS_ZEROS] += minus_zeros;
  if (special) {
    for (int64_t i = 0; i < n; i++)
      if ((bits[i] & MAGNITUDE) < INFINITE) one(x[i], shift, out);
    return;
  }
  out[COUNT] += (double)n;
  out[LOW] = fmin(out[LOW], from_ordered(low));
  out[HIGH] = fmax(out[HIGH], from_ordered(high));
  add_sums(x, n, shift, out);
}

EXPORT void nansense_moments(const float *x, int64_t n, double shift, double *out) {
  for (int i = 0; i < SPANS; i++) out[i] = 0;
  out[LOW] = INFINITY;
  out[HIGH] = -INFINITY;
  const int64_t block = 4096; /* stays in the first cache, to be read twice */
  for (int64_t at = 0; at < n; at += block) add_block(x + at, n - at < block ? n - at : block, shift, out);
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

/* The first and the last bin of [from, to) that is used; both are `from` where none is. */
static void span(const int64_t *total, int32_t from, int32_t to, double *first, double *end) {
  int32_t a = from, b = to;
  while (a < b && !total[a]) a++;
  while (b > a && !total[b - 1]) b--;
  *first = a < b ? a : from;
  *end = a < b ? b : from;
}

/* Counts values into `counts`, rows of STRIDE that hold zeros before, and into `total`, all rows together. Writes to
   `out`: number, sum and sum of squares of the differences from `shift`, least and largest of the finite values,
   +0 and -0, and the spans of bins that are used, of negative and of positive values, without the bins of zeros,
   infinities and NaN.

   Values lie as (outer, channels, inner); each of the first `limit` channels has a row, all others share the next.
   There are fewer than 2^32. */
EXPORT void nansense_fold(const float *x, int64_t outer, int64_t channels, int64_t inner, int64_t limit, double shift,
                          uint32_t *counts, int64_t *total, double *out) {
  const uint32_t *bits = (const uint32_t *)x;
  int64_t own = channels < limit ? channels : limit;
  int64_t size = channels * inner;
  for (int64_t c = 0; c < own && inner > 1; c++) count_row(bits + c * inner, outer, size, inner, counts + c * STRIDE);
  for (int64_t o = 0; o < outer && inner == 1; o++)
    for (int64_t c = 0; c < own; c++) counts[c * STRIDE + bin(bits[o * size + c])]++;
  if (channels > own) count_row(bits + own * inner, outer, size, size - own * inner, counts + own * STRIDE);
  memset(total, 0, RAW * sizeof *total);
  for (int64_t r = 0; r < own + (channels > own); r++)
    for (int j = 0; j < RAW; j++) total[j] += counts[r * STRIDE + j];
  nansense_moments(x, outer * size, shift, out);
  span(total, 1, SIGN - 4, out + SPANS, out + SPANS + 1);
  span(total, SIGN + 1, RAW - 4, out + SPANS + 2, out + SPANS + 3);
}

/* Moves the counts of the first `rows` rows into arrays of their own and leaves zeros behind, in `all_rows`.

   `first`: of shape (rows, 2), the bins of -0 and +0. `special`: (rows, 2, 4), those of infinities and NaN, or NULL
   where there are none. `negative` and `positive`: (rows, end - begin), those of a span. */
EXPORT void nansense_take(uint32_t *counts, int64_t rows, int64_t all_rows, int64_t begin, int64_t end, int64_t begin2,
                          int64_t end2, int64_t *first, int64_t *special, int64_t *negative, int64_t *positive) {
  for (int64_t r = 0; r < rows; r++) {
    const uint32_t *row = counts + r * STRIDE;
    first[2 * r] = row[0];
    first[2 * r + 1] = row[SIGN];
    for (int64_t j = begin; j < end; j++) *negative++ = row[j];
    for (int64_t j = begin2; j < end2; j++) *positive++ = row[j];
    for (int j = 0; j < 8 && special; j++) *special++ = row[(j < 4 ? SIGN : RAW - 4) - 4 + j];
  }
  for (int64_t r = 0; r < all_rows; r++) {
    uint32_t *row = counts + r * STRIDE;
    row[0] = row[SIGN] = 0;
    memset(row + begin, 0, (size_t)(end - begin) * sizeof *row);
    memset(row + begin2, 0, (size_t)(end2 - begin2) * sizeof *row);
    memset(row + SIGN - 4, 0, 4 * sizeof *row);
    memset(row + RAW - 4, 0, 4 * sizeof *row);
  }
}
