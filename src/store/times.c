/* times.c - points in time as people give them; see times.h. */
#include "times.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "pass.h"

/* ---- numbers with units ---- */

static const struct unit {
	const char *name;
	int64_t thousandths;
	bool size;
} units[] = {
	{ "ns", 1, false },
	{ "us", 1000, false },
	{ "µs", 1000, false },
	{ "μs", 1000, false }, /* the Greek letter, where the one above is the micro sign */
	{ "ms", 1000000, false },
	{ "s", 1000000000, false },
	{ "m", 60000000000, false },
	{ "h", 3600000000000, false },
	{ "kB", 1000 * 1000ll, true },
	{ "KB", 1000 * 1000ll, true },
	{ "MB", 1000 * 1000000ll, true },
	{ "GB", 1000 * 1000000000ll, true },
	{ "TB", 1000 * 1000000000000ll, true },
	{ "KiB", 1000ll << 10, true },
	{ "MiB", 1000ll << 20, true },
	{ "GiB", 1000ll << 30, true },
	{ "TiB", 1000ll << 40, true },
};

/* Whether a word goes on with this byte. */
static bool in_word(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       c == '_' || c == '.' || (c & 0x80);
}

/* The unit at `text`, a whole word; NULL: none. */
static const struct unit *find_unit(const char *text, size_t bytes, bool sizes)
{
	size_t word = 0;

	while (word < bytes && in_word(text[word]))
		word++;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (word == strlen(units[i].name) && memcmp(text, units[i].name, word) == 0 &&
		    (sizes || !units[i].size))
			return &units[i];
	}
	return NULL;
}

size_t pfw_times_number(const char *text, size_t bytes, bool sizes, int64_t *thousandths,
			bool *has_unit)
{
	__int128 sum = 0;
	__int128 below = 1; /* 10^decimals */
	size_t used = 0, digits = 0;
	bool point = false;
	const struct unit *unit;

	for (; used < bytes; used++) {
		char c = text[used];

		if (c == '.' && !point && digits && used + 1 < bytes && text[used + 1] >= '0' &&
		    text[used + 1] <= '9') {
			point = true;
			continue;
		}
		if (c < '0' || c > '9')
			break;
		if (++digits > 22)
			return 0;
		sum = sum * 10 + (c - '0');
		below *= point ? 10 : 1;
	}
	if (!digits)
		return 0;
	unit = find_unit(text + used, bytes - used, sizes);
	*has_unit = unit != NULL;
	sum *= unit ? unit->thousandths : 1000;
	if (sum % below != 0 || sum / below > INT64_MAX)
		return 0;
	*thousandths = (int64_t)(sum / below);
	return used + (unit ? strlen(unit->name) : 0);
}

/* ---- one time ---- */

static const char wanted[] = "want +12s or -5s (ns us ms s m h), 50%, step:100, or µs since the "
			     "epoch, exact to the nanosecond";

static int parse_percent(struct pfw_time *time, const char *text, size_t bytes)
{
	int64_t value;
	bool unit;

	/* Thousandths of a percent more than 100 000 are beyond the end. */
	if (!bytes || pfw_times_number(text, bytes, false, &value, &unit) != bytes || unit ||
	    value > 100000)
		return -EINVAL;
	*time = (struct pfw_time){ PFW_TIME_PERCENT, value };
	return 0;
}

static int parse_step(struct pfw_time *time, const char *text)
{
	size_t digits = strspn(text, "0123456789");

	if (!digits || digits > 18 || text[digits])
		return -EINVAL;
	*time = (struct pfw_time){ PFW_TIME_STEP, strtoll(text, NULL, 10) };
	return 0;
}

int pfw_time_parse(struct pfw_time *time, const char *text, const char **why)
{
	size_t bytes = strlen(text);
	enum pfw_time_kind kind = *text == '+'	 ? PFW_TIME_BEGIN
				  : *text == '-' ? PFW_TIME_END
						 : PFW_TIME_EPOCH;
	size_t sign = kind != PFW_TIME_EPOCH;
	int64_t ns;
	bool unit;

	*why = wanted;
	if (strncmp(text, "step:", 5) == 0)
		return parse_step(time, text + 5);
	if (bytes && text[bytes - 1] == '%')
		return parse_percent(time, text, bytes - 1);
	if (bytes == sign ||
	    pfw_times_number(text + sign, bytes - sign, false, &ns, &unit) != bytes - sign)
		return -EINVAL;
	if (sign && !unit) {
		*why = "want a unit: +12s, -500ms (ns us ms s m h)";
		return -EINVAL;
	}
	if (!sign && unit) {
		*why = "want a sign: +12s behind the begin, -12s before the end";
		return -EINVAL;
	}
	*time = (struct pfw_time){ kind, ns };
	return 0;
}

/* ---- the extent of traces ---- */

/* What one thread has found in the blocks that it read. */
struct found {
	int64_t least_ns, greatest_ns;
	struct pfw_step_span *step;
	size_t count, room;
};

struct search {
	const struct pfw_traces *traces;
	bool steps;
	struct found *found; /* of each worker */
};

static void widen(int64_t *least, int64_t *greatest, int64_t low, int64_t high)
{
	*least = low < *least ? low : *least;
	*greatest = high > *greatest ? high : *greatest;
}

static int add_step(struct found *found, const struct pfw_step_span *step)
{
	struct pfw_step_span *more;

	/* Every step is a line; so many are more than anybody's training has. */
	if (found->count == found->room) {
		found->room = found->room ? 2 * found->room : 256;
		more = found->room > (1u << 24) ? NULL
						: realloc(found->step, found->room * sizeof(*more));
		if (!more)
			return -ENOMEM;
		found->step = more;
	}
	found->step[found->count++] = *step;
	return 0;
}

/* Whether the line is a step's span, and which. */
static bool is_step(const struct pfw_entry *entry, int64_t *step)
{
	struct pfw_value value;

	return entry->ph == 'X' && pfw_slice_is(&entry->cat, "PP") &&
	       pfw_entry_arg(entry, "kind", &value) && value.type == PFW_VALUE_STRING &&
	       pfw_slice_is(&value.text, "step") && pfw_entry_arg(entry, "step", &value) &&
	       pfw_value_i64(&value, step);
}

static int look(void *user, unsigned worker, struct pfw_pass_block *block)
{
	const struct search *search = user;
	struct found *found = &search->found[worker];
	struct pfw_step_span step = { .rank = search->traces->file[block->file].head.rank };
	struct pfw_lines lines;
	int error = 0;

	pfw_lines_init(&lines, block);
	while (!error && pfw_lines_next(&lines)) {
		const struct pfw_entry *entry = &lines.entry;

		if (!(entry->has & ~entry->wrong & PFW_ENTRY_TS))
			continue;
		step.begin_ns = entry->ts_ns;
		if (__builtin_add_overflow(entry->ts_ns, entry->dur_ns > 0 ? entry->dur_ns : 0,
					   &step.end_ns))
			step.end_ns = INT64_MAX;
		widen(&found->least_ns, &found->greatest_ns, step.begin_ns, step.end_ns);
		if (search->steps && is_step(entry, &step.step))
			error = add_step(found, &step);
	}
	return error;
}

static bool want(void *user, size_t file, const struct pfw_block *block)
{
	const struct search *search = user;

	(void)file;
	return search->steps || !block->summed;
}

/* Take the summaries that there are; *missing: some block has none.  -ESPIPE: would have to be read
 * and cannot be read again. */
static int sum_up(struct pfw_extent *extent, const struct pfw_traces *traces, bool *missing)
{
	for (size_t f = 0; f < traces->count; f++) {
		const struct pfw_trace_file *file = &traces->file[f];
		/* A stream has blocks only where an index knows them. */
		bool unknown = file->blocks.layout == PFW_LAYOUT_STREAM && !file->blocks.count;
		struct stat st;

		for (size_t i = 0; i < file->blocks.count; i++) {
			const struct pfw_block *block = &file->blocks.block[i];

			unknown |= !block->summed;
			if (block->summed && block->least_ns <= block->greatest_ns)
				widen(&extent->least_ns, &extent->greatest_ns, block->least_ns,
				      block->greatest_ns);
		}
		if (unknown && (strcmp(file->path, "-") == 0 ||
				(stat(file->path, &st) == 0 && !S_ISREG(st.st_mode))))
			return -ESPIPE;
		*missing |= unknown;
	}
	return 0;
}

static int by_rank_and_step(const void *left, const void *right)
{
	const struct pfw_step_span *a = left, *b = right;

	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	if (a->step != b->step)
		return a->step < b->step ? -1 : 1;
	return a->begin_ns < b->begin_ns ? -1 : a->begin_ns > b->begin_ns;
}

/* Lines that are in no file. */
static int look_at_text(void *user, size_t file, const char *text, size_t bytes)
{
	struct pfw_problems problems = { 0 };
	struct pfw_pass_block block = {
		.file = file, .text = text, .bytes = bytes, .problems = &problems
	};
	int error = look(user, 0, &block);

	pfw_problems_free(&problems);
	return error;
}

/* Join what the threads have found. */
static int join(struct pfw_extent *extent, struct found *found, unsigned jobs)
{
	struct found all = { .least_ns = extent->least_ns, .greatest_ns = extent->greatest_ns };
	int error = 0;

	for (unsigned i = 0; i < jobs; i++) {
		widen(&all.least_ns, &all.greatest_ns, found[i].least_ns, found[i].greatest_ns);
		for (size_t j = 0; j < found[i].count && !error; j++)
			error = add_step(&all, &found[i].step[j]);
	}
	if (all.count)
		qsort(all.step, all.count, sizeof(all.step[0]), by_rank_and_step);
	extent->least_ns = all.least_ns;
	extent->greatest_ns = all.greatest_ns;
	extent->step = all.step;
	extent->step_count = all.count;
	return error;
}

static int read_on(struct pfw_extent *extent, const struct pfw_traces *traces,
		   const struct pfw_extent_options *options)
{
	struct search search = { .traces = traces, .steps = options->steps };
	struct pfw_pass pass = {
		.traces = traces,
		.jobs = pfw_pass_jobs(options->jobs),
		.user = &search,
		.want = want,
		.work = look,
		.stop = options->stop,
	};
	int error;

	search.found = calloc(pass.jobs, sizeof(*search.found));
	if (!search.found)
		return -ENOMEM;
	for (unsigned i = 0; i < pass.jobs; i++) {
		search.found[i].least_ns = INT64_MAX;
		search.found[i].greatest_ns = INT64_MIN;
	}
	error = pfw_pass_run(&pass);
	if (error == -EIO) /* a damaged file has times, too */
		error = 0;
	if (!error && options->more)
		error = options->more(options->user, look_at_text, &search);
	if (!error)
		error = join(extent, search.found, pass.jobs);
	for (unsigned i = 0; i < pass.jobs; i++)
		free(search.found[i].step);
	free(search.found);
	return error;
}

int pfw_extent_find(struct pfw_extent *extent, const struct pfw_traces *traces,
		    const struct pfw_extent_options *options)
{
	bool missing = false;
	int error;

	*extent = (struct pfw_extent){ .least_ns = INT64_MAX, .greatest_ns = INT64_MIN };
	error = sum_up(extent, traces, &missing);
	if (!error && (missing || options->steps || options->more))
		error = read_on(extent, traces, options);
	if (error)
		pfw_extent_free(extent);
	return error;
}

void pfw_extent_free(struct pfw_extent *extent)
{
	free(extent->step);
	extent->step = NULL;
	extent->step_count = 0;
}

/* ---- a time in them ---- */

/* The first one that is not before that step of that rank. */
static size_t first_step(const struct pfw_extent *extent, int64_t rank, int64_t step)
{
	size_t low = 0, high = extent->step_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct pfw_step_span *at = &extent->step[middle];

		if (at->rank < rank || (at->rank == rank && at->step < step))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The begin of a step of one rank; of the step behind the last one its end. */
static bool step_of_rank(const struct pfw_extent *extent, int64_t rank, int64_t step, int64_t *ns,
			 int64_t *has)
{
	size_t i = first_step(extent, rank, step);
	const struct pfw_step_span *last = i ? &extent->step[i - 1] : NULL;

	if (i < extent->step_count && extent->step[i].rank == rank) {
		*ns = extent->step[i].begin_ns;
		return true;
	}
	if (!last || last->rank != rank)
		return false;
	if (*has < last->step)
		*has = last->step;
	*ns = last->end_ns;
	return step == last->step + 1;
}

static int resolve_step(const struct pfw_extent *extent, int64_t rank, int64_t step, int64_t *ns,
			int64_t *has)
{
	int64_t one, least = INT64_MAX;
	bool found = false;

	*has = -1;
	if (step_of_rank(extent, rank, step, ns, has))
		return 0;
	if (*has >= 0) /* this rank has steps of its own */
		return -ENOENT;
	for (size_t i = 0; i < extent->step_count;) {
		int64_t other = extent->step[i].rank;

		if (step_of_rank(extent, other, step, &one, has)) {
			least = one < least ? one : least;
			found = true;
		}
		i = first_step(extent, other + 1, INT64_MIN);
	}
	*ns = least;
	return found ? 0 : -ENOENT;
}

static int64_t clamp(__int128 ns)
{
	return ns > INT64_MAX ? INT64_MAX : ns < INT64_MIN ? INT64_MIN : (int64_t)ns;
}

int pfw_time_resolve(const struct pfw_time *time, const struct pfw_extent *extent, int64_t rank,
		     int64_t *ns, int64_t *has)
{
	__int128 length = (__int128)extent->greatest_ns - extent->least_ns;

	if (time->kind == PFW_TIME_EPOCH) {
		*ns = time->value;
		return 0;
	}
	if (extent->least_ns > extent->greatest_ns)
		return -ERANGE;
	if (time->kind == PFW_TIME_STEP)
		return resolve_step(extent, rank, time->value, ns, has);
	if (time->kind == PFW_TIME_PERCENT) /* 100% is behind all, also what takes no time */
		*ns = clamp(extent->least_ns + length * time->value / 100000 +
			    (time->value == 100000));
	else if (time->kind == PFW_TIME_BEGIN)
		*ns = clamp((__int128)extent->least_ns + time->value);
	else
		*ns = clamp((__int128)extent->greatest_ns - time->value);
	return 0;
}
