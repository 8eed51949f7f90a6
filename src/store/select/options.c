/* store/select/options.c - parses the options of a selection; see select.h. */
#include "store/select/select.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/globs.h"
#include "common/base/units.h"
#include "store/expr/expr.h"
#include "store/kit/grow.h"

static int add_glob(struct pfw_select_globs *globs, const char *value)
{
	struct pfw_select_glob glob = { .out = value[0] == '!' && value[1] };

	value += glob.out;
	glob.bytes = strlen(value);
	glob.plain = !strpbrk(value, "*?[\\");
	glob.text = strdup(value);
	if (glob.text && !PFW_APPEND(globs->glob, globs->count, glob))
		return 0;
	free(glob.text);
	return -ENOMEM;
}

/* Read an integer of at most 18 digits and advance *at. */
static bool take_number(const char **at, uint64_t *number)
{
	size_t digits = strspn(*at, "0123456789");

	if (!digits || digits > 18)
		return false;
	*number = strtoull(*at, NULL, 10);
	*at += digits;
	return true;
}

static int add_ranges(struct pfw_select_ranges *ranges, const char *value, char *why, size_t size)
{
	const char *at = value;

	for (;;) {
		uint64_t first, last;
		int error;

		if (!take_number(&at, &first))
			break;
		last = first;
		if (*at == '-' && (at++, !take_number(&at, &last)))
			break;
		if (last < first)
			break;
		error = PFW_APPEND(ranges->range, ranges->count,
				   (struct pfw_select_range){ first, last });
		if (error || *at == '\0')
			return error;
		if (*at++ != ',')
			break;
	}
	snprintf(why, size, "want numbers and ranges: 0,8-15");
	return -EINVAL;
}

static int set_time(struct pfw_time *time, const char *value, char *why, size_t size)
{
	const char *text = "";
	int error = pfw_time_parse(time, value, &text);

	if (error)
		snprintf(why, size, "%s", text);
	return error;
}

static int set_min_dur(struct pfw_select *select, const char *value, char *why, size_t size)
{
	bool unit;

	select->has_min_dur = true;
	if (pfw_units_read(value, strlen(value), PFW_UNITS_TIME, &select->min_dur_ns, &unit) ==
		    strlen(value) &&
	    *value)
		return 0;
	snprintf(why, size, "want 20us, 5ms, 1.5s, or a number of µs");
	return -EINVAL;
}

static int add_where(struct pfw_select *select, const char *value, char *why, size_t size)
{
	struct pfw_expr *where;
	int error = PFW_LIST_ROOM(select->where, select->where_count);

	error = error ?: pfw_expr_compile(&where, value, why, size);
	if (error)
		return error;
	select->where[select->where_count++] = where;
	select->meta |= pfw_expr_wants_meta(where);
	select->ask_fnames |= pfw_expr_asks_fname(where);
	return 0;
}

static int add(struct pfw_select *select, enum pfw_select_option option, const char *value,
	       char *why, size_t size)
{
	switch (option) {
	case PFW_SELECT_SINCE:
		return set_time(&select->since, value, why, size);
	case PFW_SELECT_UNTIL:
		return set_time(&select->until, value, why, size);
	case PFW_SELECT_CAT:
		select->meta |= pfw_glob_match(value, strlen(value), "pfw", 3);
		return add_glob(&select->cat, value);
	case PFW_SELECT_NAME:
		return add_glob(&select->name, value);
	case PFW_SELECT_FNAME:
		select->ask_fnames = true;
		return add_glob(&select->fname, value);
	case PFW_SELECT_RANK:
		return add_ranges(&select->rank, value, why, size);
	case PFW_SELECT_PID:
		return add_ranges(&select->pid, value, why, size);
	case PFW_SELECT_TID:
		return add_ranges(&select->tid, value, why, size);
	case PFW_SELECT_STEP:
		select->ask_steps = true;
		return add_ranges(&select->step, value, why, size);
	case PFW_SELECT_MIN_DUR:
		return set_min_dur(select, value, why, size);
	default:
		return add_where(select, value, why, size);
	}
}

int pfw_select_add(struct pfw_select *select, enum pfw_select_option option, const char *value,
		   char *why, size_t size)
{
	int error = add(select, option, value, why, size);

	if (error == -ENOMEM)
		snprintf(why, size, "%s", strerror(ENOMEM));
	return error;
}
