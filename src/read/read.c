/* read/read.c - what a program calls to say what it reads; see pfw/read.h. */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pfw/pfw.h"
#include "read/columns.h"
#include "read/internal.h"
#include "store/kit/grow.h"
#include "store/pass/pass.h"

const char *pfw_read_version(void)
{
	return PFW_VERSION;
}

/* Each has some MiB in flight. */
#define JOBS_BY_DEFAULT 8u

/* ---- lifetime ---- */

struct pfw_read *pfw_read_new(void)
{
	struct pfw_read *read = calloc(1, sizeof(*read));

	if (read)
		atomic_init(&read->users, 1);
	return read;
}

void pfw_read_drop(struct pfw_read *read)
{
	if (!read || atomic_fetch_sub(&read->users, 1) > 1)
		return;
	for (size_t i = 0; i < read->paths; i++)
		free(read->path[i]);
	free(read->path);
	for (size_t i = 0; i < read->conditions; i++)
		free(read->condition[i].value);
	free(read->condition);
	free(read->columns);
	for (unsigned i = 0; i < PFW_READ_PROBLEMS_KEPT; i++)
		free(read->problem[i]);
	free(read);
}

void pfw_read_free(struct pfw_read *read)
{
	pfw_read_drop(read);
}

void pfw_read_stop(struct pfw_read *read)
{
	read->stop = true;
}

/* ---- what went wrong ---- */

int pfw_read_fail(struct pfw_read *read, int error, const char *format, ...)
{
	va_list values;

	va_start(values, format);
	if (format)
		vsnprintf(read->error, sizeof(read->error), format, values);
	else
		snprintf(read->error, sizeof(read->error), "%s", strerror(-error));
	va_end(values);
	return error;
}

const char *pfw_read_error(const struct pfw_read *read)
{
	return read->error;
}

void pfw_read_add_problem(struct pfw_read *read, uint64_t more, const char *format, ...)
{
	uint64_t number = read->problems;
	va_list values;

	read->problems += 1 + more;
	if (number >= PFW_READ_PROBLEMS_KEPT)
		return;
	va_start(values, format);
	if (vasprintf(&read->problem[number], format, values) < 0)
		read->problem[number] = NULL;
	va_end(values);
}

uint64_t pfw_read_problems(const struct pfw_read *read)
{
	return read->problems;
}

const char *pfw_read_problem(const struct pfw_read *read, uint64_t number)
{
	return number < PFW_READ_PROBLEMS_KEPT ? read->problem[number] : NULL;
}

/* ---- what to read ---- */

int pfw_read_path(struct pfw_read *read, const char *path)
{
	char *copy = strdup(path);

	if (copy && !PFW_APPEND(read->path, read->paths, copy))
		return 0;
	free(copy);
	return pfw_read_fail(read, -ENOMEM, NULL);
}

static const char *const conditions[] = {
	[PFW_SELECT_SINCE] = "since",	  [PFW_SELECT_UNTIL] = "until", [PFW_SELECT_CAT] = "cat",
	[PFW_SELECT_NAME] = "name",	  [PFW_SELECT_FNAME] = "fname", [PFW_SELECT_RANK] = "rank",
	[PFW_SELECT_PID] = "pid",	  [PFW_SELECT_TID] = "tid",	[PFW_SELECT_STEP] = "step",
	[PFW_SELECT_MIN_DUR] = "min-dur", [PFW_SELECT_WHERE] = "where",
};

const char *pfw_read_condition_name(enum pfw_select_option option)
{
	return conditions[option];
}

static int add_condition(struct pfw_read *read, enum pfw_select_option option, const char *value)
{
	struct pfw_read_condition condition = { option, NULL };
	struct pfw_select tried = { .meta = false };
	char why[1024] = "";
	int error = pfw_select_add(&tried, option, value, why, sizeof(why));

	pfw_select_release(&tried);
	if (error)
		return option == PFW_SELECT_WHERE ? pfw_read_fail(read, error, "where: %s", why)
						  : pfw_read_fail(read, error, "%s %s: %s",
								  conditions[option], value, why);
	condition.value = strdup(value);
	if (condition.value && !PFW_APPEND(read->condition, read->conditions, condition))
		return 0;
	free(condition.value);
	return pfw_read_fail(read, -ENOMEM, NULL);
}

static int set_columns(struct pfw_read *read, const char *list)
{
	struct pfw_read_columns columns;
	char why[256] = "", *copy = NULL;

	if (*list && pfw_read_columns_parse(&columns, list, why, sizeof(why)))
		return pfw_read_fail(read, -EINVAL, "columns: %s", why);
	if (*list && !(copy = strdup(list)))
		return pfw_read_fail(read, -ENOMEM, NULL);
	free(read->columns);
	read->columns = copy;
	return 0;
}

static int set_flag(struct pfw_read *read, const char *option, const char *value, bool *flag)
{
	if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
		return pfw_read_fail(read, -EINVAL, "%s %s: want 0 or 1", option, value);
	*flag = *value == '1';
	return 0;
}

/* A number of things up to `most`. */
static int set_number(struct pfw_read *read, const char *option, const char *value, unsigned most,
		      const char *things, unsigned *number)
{
	size_t digits = strspn(value, "0123456789");
	unsigned long given = digits && digits < 9 ? strtoul(value, NULL, 10) : ULONG_MAX;

	if (value[digits] || given > most)
		return pfw_read_fail(read, -EINVAL, "%s %s: want a number of %s, at most %u",
				     option, value, things, most);
	*number = (unsigned)given;
	return 0;
}

static int set_part(struct pfw_read *read, const char *value)
{
	struct pfw_read_range part = { .to = 0 };

	if (*value && !pfw_read_range_parse(&part, value))
		return pfw_read_fail(read, -EINVAL, "part %s: want a part of pfw_read_divide()",
				     value);
	read->part = part;
	return 0;
}

unsigned pfw_read_jobs(const struct pfw_read *read)
{
	unsigned jobs = pfw_pass_jobs(read->jobs);

	return read->jobs || jobs < JOBS_BY_DEFAULT ? jobs : JOBS_BY_DEFAULT;
}

int pfw_read_set(struct pfw_read *read, const char *option, const char *value)
{
	for (unsigned i = 0; i < sizeof(conditions) / sizeof(conditions[0]); i++) {
		if (strcmp(option, conditions[i]) == 0)
			return add_condition(read, (enum pfw_select_option)i, value);
	}
	if (strcmp(option, "columns") == 0)
		return set_columns(read, value);
	if (strcmp(option, "jobs") == 0)
		return set_number(read, option, value, PFW_READ_JOBS_MOST, "threads", &read->jobs);
	if (strcmp(option, "batch-rows") == 0)
		return set_number(read, option, value, PFW_READ_ROWS_MOST, "rows",
				  &read->batch_rows);
	if (strcmp(option, "part") == 0)
		return set_part(read, value);
	if (strcmp(option, "meta") == 0)
		return set_flag(read, option, value, &read->meta);
	if (strcmp(option, "all-runs") == 0)
		return set_flag(read, option, value, &read->all_runs);
	return pfw_read_fail(read, -EINVAL,
			     "there is no option %s: since until min-dur cat name fname rank pid "
			     "tid step where meta all-runs columns jobs batch-rows part",
			     option);
}
