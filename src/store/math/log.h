/* store/math/log.h - natural logarithms of durations as integers: their sums do not depend on
 * order, and are the same on every machine, as an index needs. */
#pragma once

#include <stdint.h>

/* The unit of pfw_log_ns() is one in so many. */
#define PFW_LOG_UNIT 0x1p32

/* ln(ns) to about 1e-9; 0 for durations below 1 ns.  Thread: any. */
static inline int64_t pfw_log_ns(int64_t ns)
{
	/* Of each 32nd part of 1 to 2: 1 / c in units of 2^-24 for a c in its middle, and ln(c) in
	 * units of 2^-32. */
	static const struct {
		uint32_t inverse, log;
	} parts[32] = {
		{ 0xfc0fc1, 0x3f81512 },  { 0xf4898d, 0xbba2cdf },  { 0xed7304, 0x1341d746 },
		{ 0xe6c2b4, 0x1a926d8a }, { 0xe07038, 0x21aefd1a }, { 0xda740e, 0x289a5672 },
		{ 0xd4c77b, 0x2f571208 }, { 0xcf6475, 0x35e79231 }, { 0xca4588, 0x3c4e0ebc },
		{ 0xc565c8, 0x428c942a }, { 0xc0c0c1, 0x48a5079b }, { 0xbc5264, 0x4e993166 },
		{ 0xb81703, 0x546ab5f1 }, { 0xb40b41, 0x5a1b200e }, { 0xb02c0b, 0x5fabe0f2 },
		{ 0xac7692, 0x651e4fb9 }, { 0xa8e83f, 0x6a73b2ee }, { 0xa57eb5, 0x6fad367b },
		{ 0xa237c3, 0x74cbfa3c }, { 0x9f1166, 0x79d1095f }, { 0x9c09c1, 0x7ebd619a },
		{ 0x991f1a, 0x8391f369 }, { 0x964fda, 0x884f9da9 }, { 0x939a86, 0x8cf7353b },
		{ 0x90fdbc, 0x918986ce }, { 0x8e7835, 0x9607502e }, { 0x8c08c1, 0x9a714419 },
		{ 0x89ae41, 0x9ec81278 }, { 0x8767ab, 0xa30c5ec5 }, { 0x853408, 0xa73ec12e },
		{ 0x83126f, 0xab5fcde2 }, { 0x810204, 0xaf701559 }
	};
	/* ln(2) in units of 2^-48, and 1/2 and 1/3 in units of 2^-32. */
	const int64_t ln2 = 0xb17217f7d1cf, half = INT64_C(1) << 31, third = 0x55555555;
	int64_t exponent, x, more;
	uint64_t mantissa;
	unsigned part;

	if (ns <= 1)
		return 0;
	exponent = 63 - __builtin_clzll((uint64_t)ns);
	mantissa = (uint64_t)ns << (63 - exponent);
	part = mantissa >> 58 & 31;
	/* ln(m) = ln(c) + ln(1 + x) = ln(c) + x - x^2/2 + x^3/3 - x^4/4 + ... with x = m / c - 1,
	 * |x| < 1/63. */
	x = (int64_t)((mantissa >> 24) * parts[part].inverse - (UINT64_C(1) << 63)) >> 31;
	more = half - (x * (third - (x >> 2)) >> 32);
	more = x - ((x * x >> 32) * more >> 32);
	return (exponent * ln2 >> 16) + parts[part].log + more;
}
