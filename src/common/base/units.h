/* common/base/units.h - numbers with a unit of time or size: 5ms, 1.5h, 4KiB.
 *
 * Units are compared exactly first, then without regard to case.  K, M, G and T are KiB, MiB, GiB
 * and TiB; m is a minute.  So m and M differ only where both kinds of units are accepted.
 * Thread: any.  Signal: safe, all of them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lists of units for messages. */
#define PFW_UNITS_OF_TIME "ns us ms s m h"
#define PFW_UNITS_OF_SIZE "KiB MiB GiB TiB, kB MB GB TB"

/* Which units are accepted. */
enum pfw_units { PFW_UNITS_TIME = 1, PFW_UNITS_SIZE = 2 };

/* Read a decimal number with or without a unit, in thousandths: of a µs if the unit is one of time,
 * else of one.  *unit: whether there was one.  Return the bytes used; 0 if there is no number of at
 * most 22 digits, or if it does not fit or is not a whole count of thousandths. */
size_t pfw_units_read(const char *text, size_t bytes, unsigned wanted, int64_t *thousandths,
		      bool *unit);

/* Read a text that is a time with a unit and a whole number of ns. */
bool pfw_units_ns(const char *text, size_t bytes, uint64_t *ns);

/* Read a text that is a whole number of bytes; the unit is optional. */
bool pfw_units_size(const char *text, size_t bytes, uint64_t *size);
