/* store/math/log.h - natural logarithms of durations as integers: their sums do not depend on
 * order, and are the same on every machine, as an index needs. */
#pragma once

#include <stdint.h>

/* The unit of pfw_log_ns() is one in so many. */
#define PFW_LOG_UNIT 0x1p32

/* ln(ns) to about 1e-9; 0 for durations below 1 ns.  Thread: any. */
static inline int64_t pfw_log_ns(int64_t ns)
{
	/* In units of 2^-32: 1, and the square root of 2. */
	const int64_t one = INT64_C(1) << 32, root = 0x16a09e668;
	/* ln(2) in units of 2^-48, and 1/3 to 1/11 in units of 2^-31. */
	const int64_t ln2 = 0xb17217f7d1cf;
	const int64_t third = 715827883, fifth = 429496730, seventh = 306783379, ninth = 238609294,
		      eleventh = 195225786;
	int64_t exponent, part, unit, s, z, more;

	if (ns <= 1)
		return 0;
	exponent = 63 - __builtin_clzll((uint64_t)ns);
	part = (int64_t)((uint64_t)ns << (63 - exponent) >> 31);
	unit = part < root ? one : 2 * one;
	exponent += part >= root;
	/* ln(x) = 2 atanh(s) = 2 (s + s^3/3 + s^5/5 + ...) with s = (x - 1) / (x + 1), |s| <
	 * 0.172. */
	s = (part - unit) * (INT64_C(1) << 31) / (part + unit);
	z = s * s >> 31;
	more = ninth + (z * eleventh >> 31);
	more = seventh + (z * more >> 31);
	more = fifth + (z * more >> 31);
	more = third + (z * more >> 31);
	more = z * more >> 31;
	return (exponent * ln2 >> 16) + 4 * s + 4 * s * more / (INT64_C(1) << 31);
}
