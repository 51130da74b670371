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

enum { RAW = 2048, SHIFT = 21, SIGN = 1024, LANES = 4, WORTH_TABLES = 8192 };
enum { COUNT, SUM, SQUARES, LOW, HIGH, ZEROS, MINUS_ZEROS };

static const int32_t MAGNITUDE = 0x7fffffff, INFINITE = 0x7f800000;

EXPORT const char *nansense_source_hash(void) { return SOURCE_HASH; }

/* Four tables in turn: to count the same bin again, the processor need not wait for its last count. */
typedef uint32_t Table[4][RAW];

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
static void count_row(const uint32_t *bits, int64_t runs, int64_t stride, int64_t length, int64_t *row) {
  if (runs * length < WORTH_TABLES) {
    for (int64_t r = 0; r < runs; r++)
      for (int64_t i = 0; i < length; i++) row[bin(bits[r * stride + i])]++;
    return;
  }
  Table table;
  memset(table, 0, sizeof table);
  for (int64_t r = 0; r < runs; r++) count(bits + r * stride, length, table);
  for (int j = 0; j < RAW; j++) row[j] += (int64_t)table[0][j] + table[1][j] + table[2][j] + table[3][j];
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

static void moments(const float *x, int64_t n, double shift, double *out) {
  const int64_t block = 4096; /* stays in the first cache, to be read twice */
  for (int64_t at = 0; at < n; at += block) add_block(x + at, n - at < block ? n - at : block, shift, out);
}

/* Adds to `counts` (rows of 2048) and to `out`: number, sum and sum of squares of the differences from `shift`,
   least and largest of the finite values, +0 and -0. Values lie as (outer, channels, inner); each of the first
   `limit` channels has a row, all others share the next. */
EXPORT void nansense_fold(const float *x, int64_t outer, int64_t channels, int64_t inner, int64_t limit, double shift,
                          int64_t *counts, double *out) {
  const uint32_t *bits = (const uint32_t *)x;
  int64_t own = channels < limit ? channels : limit;
  int64_t size = channels * inner;
  for (int64_t c = 0; c < own && inner > 1; c++) count_row(bits + c * inner, outer, size, inner, counts + c * RAW);
  for (int64_t o = 0; o < outer && inner == 1; o++)
    for (int64_t c = 0; c < own; c++) counts[c * RAW + bin(bits[o * size + c])]++;
  count_row(bits + own * inner, outer, size, size - own * inner, counts + own * RAW);
  moments(x, outer * size, shift, out);
}

EXPORT void nansense_moments(const float *x, int64_t n, double shift, double *out) { moments(x, n, shift, out); }
