/* common/base/units.c - numbers with a unit of time or size; see units.h. */
#include "common/base/units.h"

#include <string.h>

static const struct unit {
	const char *name;
	int64_t thousandths;
	enum pfw_units kind;
} units[] = {
	{ "ns", 1, PFW_UNITS_TIME },
	{ "us", 1000, PFW_UNITS_TIME },
	{ "µs", 1000, PFW_UNITS_TIME },
	{ "μs", 1000, PFW_UNITS_TIME }, /* the Greek letter mu; the line above has the micro sign */
	{ "ms", 1000000, PFW_UNITS_TIME },
	{ "s", 1000000000, PFW_UNITS_TIME },
	{ "m", 60000000000, PFW_UNITS_TIME },
	{ "h", 3600000000000, PFW_UNITS_TIME },
	{ "B", 1000, PFW_UNITS_SIZE },
	{ "kB", 1000 * 1000ll, PFW_UNITS_SIZE },
	{ "MB", 1000 * 1000000ll, PFW_UNITS_SIZE },
	{ "GB", 1000 * 1000000000ll, PFW_UNITS_SIZE },
	{ "TB", 1000 * 1000000000000ll, PFW_UNITS_SIZE },
	{ "KiB", 1000ll << 10, PFW_UNITS_SIZE },
	{ "MiB", 1000ll << 20, PFW_UNITS_SIZE },
	{ "GiB", 1000ll << 30, PFW_UNITS_SIZE },
	{ "TiB", 1000ll << 40, PFW_UNITS_SIZE },
	{ "K", 1000ll << 10, PFW_UNITS_SIZE },
	{ "M", 1000ll << 20, PFW_UNITS_SIZE },
	{ "G", 1000ll << 30, PFW_UNITS_SIZE },
	{ "T", 1000ll << 40, PFW_UNITS_SIZE },
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Whether this byte can be part of a word. */
static bool in_word(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
	       c == '.' || (c & 0x80);
}

/* Whether the text is the name, apart from the bits in `ignore`. */
static bool is_name(const char *name, const char *text, size_t bytes, char ignore)
{
	size_t i = 0;

	while (i < bytes && (name[i] | ignore) == (text[i] | ignore))
		i++;
	return i == bytes && !name[i];
}

/* The unit that is the whole word at `text`, or NULL. */
static const struct unit *find_unit(const char *text, size_t bytes, unsigned wanted)
{
	const char fold[] = { 0, 'a' ^ 'A' };
	size_t word = 0;

	while (word < bytes && in_word(text[word]))
		word++;
	for (size_t pass = 0; word && pass < sizeof(fold); pass++) {
		for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
			if ((units[i].kind & wanted) &&
			    is_name(units[i].name, text, word, fold[pass]))
				return &units[i];
		}
	}
	return NULL;
}

/* As pfw_units_read(), in 128 bits; -1: no number. */
static __int128 read_number(const char *text, size_t bytes, unsigned wanted, size_t *used,
			    bool *has_unit)
{
	__int128 sum = 0;
	__int128 below = 1; /* 10^decimals */
	size_t at = 0, digits = 0;
	bool point = false;
	const struct unit *unit;

	for (; at < bytes; at++) {
		if (text[at] == '.' && !point && digits && at + 1 < bytes &&
		    is_digit(text[at + 1])) {
			point = true;
			continue;
		}
		if (!is_digit(text[at]))
			break;
		if (++digits > 22)
			return -1;
		sum = sum * 10 + (text[at] - '0');
		below *= point ? 10 : 1;
	}
	if (!digits)
		return -1;
	unit = find_unit(text + at, bytes - at, wanted);
	*has_unit = unit != NULL;
	*used = at + (unit ? strlen(unit->name) : 0);
	sum *= unit ? unit->thousandths : 1000;
	return sum % below ? -1 : sum / below;
}

size_t pfw_units_read(const char *text, size_t bytes, unsigned wanted, int64_t *thousandths,
		      bool *unit)
{
	size_t used;
	__int128 number = read_number(text, bytes, wanted, &used, unit);

	if (number < 0 || number > INT64_MAX)
		return 0;
	*thousandths = (int64_t)number;
	return used;
}

bool pfw_units_ns(const char *text, size_t bytes, uint64_t *ns)
{
	bool unit;
	size_t used;
	__int128 number = read_number(text, bytes, PFW_UNITS_TIME, &used, &unit);

	if (number < 0 || used != bytes || !unit || number > UINT64_MAX)
		return false;
	*ns = (uint64_t)number;
	return true;
}

bool pfw_units_size(const char *text, size_t bytes, uint64_t *size)
{
	bool unit;
	size_t used;
	__int128 number = read_number(text, bytes, PFW_UNITS_SIZE, &used, &unit);

	if (number < 0 || used != bytes || number % 1000 || number / 1000 > UINT64_MAX)
		return false;
	*size = (uint64_t)(number / 1000);
	return true;
}
