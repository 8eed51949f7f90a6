/* compact_groups.c - which traces become which compacted file, and what must not be merged. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "compact.h"
#include "store/marks.h"
#include "store/scan.h"

/* A file with the name of what it belongs to. */
struct member {
	struct pfw_trace_file *file;
	char *stem; /* its name without suffix and -pidNNN */
	char *key;  /* files with the same become one */
	int64_t rank;
	bool child; /* its name has -pidNNN */
};

/* ---- names ---- */

static char *stem_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *stem = strdup(slash ? slash + 1 : path);
	size_t bytes = stem ? strlen(stem) : 0;

	if (bytes > 3 && strcmp(stem + bytes - 3, ".gz") == 0)
		stem[bytes -= 3] = '\0';
	if (bytes > 4 && strcmp(stem + bytes - 4, ".pfw") == 0)
		stem[bytes - 4] = '\0';
	return stem;
}

/* Where `word` and the digits behind it stand in a stem, up to its end or a `-`, a `.N` passed over;
 * NULL where they do not. */
static char *find_word(char *stem, const char *word, char **end)
{
	char *found = NULL;

	for (char *at = stem; (at = strstr(at, word)); at++) {
		char *behind = at + strlen(word);
		size_t digits = strspn(behind, "0123456789");

		if (digits && (!behind[digits] || strchr("-.", behind[digits]))) {
			found = at;
			*end = behind + digits;
		}
	}
	return found;
}

/* "t-rank0003-pid77.2" -> "t-rank0003"; whether it was one of a child. */
static bool cut_pid(char *stem)
{
	char *end = NULL, *at = find_word(stem, "-pid", &end);

	if (!at || at == stem)
		return false;
	if (*end == '.' && strspn(end + 1, "0123456789") == strlen(end + 1))
		end += strlen(end);
	if (*end)
		return false;
	*at = '\0';
	return true;
}

/* What the ranks of a run have in common: "t-rank0003" -> "t", "t-launcher-host" -> "t". */
static char *base_of(const char *stem)
{
	char *base = strdup(stem), *end, *at;

	if (!base)
		return NULL;
	at = find_word(base, "-rank", &end);
	if (!at)
		at = strstr(base, "-launcher-");
	if (at && at != base)
		*at = '\0';
	return base;
}

static int64_t rank_of(const struct pfw_trace_file *file, char *stem)
{
	char *end, *at;

	if (file->head.rank >= 0)
		return file->head.rank;
	/* A rank that the program learnt late is in the name only. */
	at = file->head.ours ? find_word(stem, "-rank", &end) : NULL;
	return at ? strtoll(at + strlen("-rank"), NULL, 10) : -1;
}

char *compact_directory(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return strdup(".");
	return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

/* ---- keys ---- */

/* Bytes of a stem without `.N`: a second file of one name, by exec or since an older run has it. */
static int unnumbered(const char *stem)
{
	const char *dot = strrchr(stem, '.');

	return dot && dot != stem && dot[1] && !dot[1 + strspn(dot + 1, "0123456789")]
		       ? (int)(dot - stem)
		       : (int)strlen(stem);
}

static char *key_of(const struct compact *compact, const struct member *member)
{
	const struct pfw_trace *head = &member->file->head;
	char *key, *directory;
	int bytes;

	if (compact->split == COMPACT_BY_PROCESS)
		return strdup(member->file->path);
	if (!head->ours) { /* another tool's: all of a directory */
		directory = compact_directory(member->file->path);
		bytes = directory ? asprintf(&key, "2 %s", directory) : -1;
		free(directory);
	} else if (compact->split == COMPACT_INTO_ONE) {
		bytes = asprintf(&key, "1 %s", head->run);
	} else if (member->rank >= 0) {
		bytes = asprintf(&key, "1 %s %020" PRId64, head->run, member->rank);
	} else {
		bytes = asprintf(&key, "0 %s %.*s", head->run, unnumbered(member->stem),
				 member->stem);
	}
	return bytes < 0 ? NULL : key;
}

static int compare_u64(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/* Groups together; within one by rank, roots first, then as the processes began. */
static int compare(const void *a, const void *b)
{
	const struct member *x = a, *y = b;
	int order = strcmp(x->key, y->key);

	if (!order)
		order = compare_u64((uint64_t)(x->rank + 1), (uint64_t)(y->rank + 1));
	if (!order)
		order = x->child - y->child;
	if (!order)
		order = compare_u64((uint64_t)x->file->head.start_ns,
				    (uint64_t)y->file->head.start_ns);
	if (!order)
		order = compare_u64(x->file->head.pid, y->file->head.pid);
	return order ? order : strcmp(x->file->path, y->file->path);
}

/* ---- what must not be merged ---- */

static bool same_process(const struct pfw_trace *a, const struct pfw_trace *b)
{
	return a->ours && b->ours && a->pid == b->pid && strcmp(a->host, b->host) == 0;
}

/* Two files that begin with the same line: one was made from the other. */
static bool check_doubles(struct compact *compact, const struct member *member, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		const struct pfw_trace *a = &member[i - 1].file->head, *b = &member[i].file->head;

		if (!same_process(a, b) || a->start_ns != b->start_ns || a->first_id != b->first_id)
			continue;
		compact_say(compact, CLI_USAGE, member[i].file->path,
			    "begins as %s does (process %" PRIu64
			    "): is one compacted from the other? name one of them",
			    cli_name(member[i - 1].file->path), b->pid);
		return false;
	}
	return true;
}

/* A program that execs another has two files and one pid. */
static bool check_roots(struct compact *compact, const struct member *member, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		if (member[i].child || member[i - 1].child || member[i].rank != member[0].rank ||
		    !member[i].file->head.ours ||
		    same_process(&member[i - 1].file->head, &member[i].file->head))
			continue;
		compact_say(compact, CLI_USAGE, member[i].file->path,
			    "is a root of run %s and so is %s: two launches with one name of a "
			    "run are not merged; compact each by itself, with -o",
			    cli_name(member[i].file->head.run), cli_name(member[i - 1].file->path));
		return false;
	}
	return true;
}

static bool check_runs(struct compact *compact, const struct member *member, size_t count)
{
	for (size_t i = 1; i < count && !compact->all_runs; i++) {
		const struct pfw_trace *a = &member[i - 1].file->head, *b = &member[i].file->head;

		if (!a->ours || !b->ours || strcmp(a->run, b->run) == 0)
			continue;
		compact_say(compact, CLI_USAGE, member[i].file->path,
			    "is of run %s and %s of run %s: two runs are not merged; name one, or "
			    "--all-runs for a result of each",
			    cli_name(b->run), cli_name(member[i - 1].file->path), cli_name(a->run));
		return false;
	}
	return true;
}

/* ---- groups ---- */

/* The longest common beginning of the stems of another tool's files, without what separates. */
static char *common_stem(const struct member *member, size_t count)
{
	char *stem = strdup(member[0].stem);
	size_t bytes = stem ? strlen(stem) : 0;

	for (size_t i = 1; i < count; i++) {
		size_t same = 0;

		while (same < bytes && stem[same] == member[i].stem[same])
			same++;
		bytes = same;
	}
	if (stem && count > 1) {
		while (bytes && strchr("-_.", stem[bytes - 1]))
			bytes--;
		stem[bytes] = '\0';
		if (!bytes) {
			free(stem);
			stem = strdup("trace");
		}
	}
	return stem;
}

/* The name of the result, without suffix. */
static char *result_stem(const struct compact *compact, const struct member *member, size_t count)
{
	if (!member->file->head.ours && compact->split != COMPACT_BY_PROCESS)
		return common_stem(member, count);
	if (compact->split == COMPACT_BY_PROCESS)
		return stem_of(member->file->path);
	if (compact->split == COMPACT_INTO_ONE)
		return base_of(member->stem);
	return strdup(member->stem);
}

static bool fill_group(struct compact *compact, struct compact_group *group,
		       const struct member *member, size_t count)
{
	char *stem = result_stem(compact, member, count), *path = NULL;
	struct stat st;

	*group = (struct compact_group){ .run = member->file->head.run,
					 .rank = compact->split == COMPACT_INTO_ONE ? -1
										    : member->rank,
					 .count = count };
	group->directory = compact->out ? strdup(compact->out)
					: compact_directory(member->file->path);
	group->file = calloc(count, sizeof(struct pfw_trace_file *));
	group->base = stem ? base_of(stem) : NULL;
	if (!stem || asprintf(&group->name, "%s.pfw.gz", stem) < 0)
		group->name = NULL;
	free(stem);
	if (!group->directory || !group->file || !group->base || !group->name ||
	    asprintf(&path, "%s/%s", group->directory, group->name) < 0)
		return false;
	for (size_t i = 0; i < count; i++) {
		group->file[i] = member[i].file;
		group->bytes_before += member[i].file->blocks.file_bytes;
	}
	if (stat(path, &st) == 0) {
		for (size_t i = 0; i < count; i++)
			group->replaces |= group->file[i]->device == st.st_dev &&
					   group->file[i]->inode == st.st_ino;
	}
	free(path);
	return true;
}

/* ---- a file of several processes, to be taken apart ---- */

/* One more group of the same file, for a process of it. */
static bool add_process(struct compact *compact, const struct member *member, uint64_t pid,
			uint64_t lines)
{
	struct compact_group *bigger =
		realloc(compact->group,
			(compact->groups + compact->traces.count) * sizeof(*compact->group));
	struct compact_group *group;
	char *stem;

	if (!bigger)
		return false;
	compact->group = bigger;
	group = &bigger[compact->groups++];
	if (!fill_group(compact, group, member, 1))
		return false;
	group->pid = pid;
	group->split_lines = lines;
	group->replaces = false;
	free(group->name);
	group->name = NULL;
	stem = stem_of(member->file->path);
	if (stem && asprintf(&group->name, "%s-pid%" PRIu64 ".pfw.gz", stem, pid) < 0)
		group->name = NULL;
	free(stem);
	return group->name;
}

static bool is_known(const struct compact *compact, size_t first, uint64_t pid)
{
	for (size_t i = first; i < compact->groups; i++) {
		if (compact->group[i].pid == pid)
			return true;
	}
	return false;
}

/* A compacted file begins with the `process` lines of all that is in it: a group for each. */
static bool split_processes(struct compact *compact, const struct member *member)
{
	size_t first = compact->groups - 1;
	struct pfw_marks marks;
	struct pfw_scan scan;
	bool good = true;

	if (compact->split != COMPACT_BY_PROCESS ||
	    pfw_marks_read(&marks, member->file->path, &member->file->blocks) || !marks.marked ||
	    marks.one_pid || pfw_scan_open(&scan, member->file->path))
		return true;
	while (good && pfw_scan_next(&scan) == PFW_SCAN_LINE && pfw_scan_is(&scan, "process")) {
		if (!compact->group[first].pid) {
			compact->group[first].pid = scan.entry.pid;
			compact->group[first].split_lines = marks.lines;
		} else if (!is_known(compact, first, scan.entry.pid)) {
			good = add_process(compact, member, scan.entry.pid, marks.lines);
		}
	}
	pfw_scan_close(&scan);
	return good;
}

/* Two groups with one name: files of one name in two directories, and -o. */
static bool check_names(struct compact *compact)
{
	for (size_t i = 1; i < compact->groups; i++) {
		const struct compact_group *a = &compact->group[i];

		for (size_t j = 0; j < i && compact->groups <= 2048; j++) {
			const struct compact_group *b = &compact->group[j];

			if (strcmp(a->name, b->name) || strcmp(a->directory, b->directory))
				continue;
			compact_say(compact, CLI_USAGE, a->file[0]->path,
				    "and %s would both become %s: compact them one by one",
				    cli_name(b->file[0]->path), cli_name(a->name));
			return false;
		}
	}
	return true;
}

static void no_memory(struct compact *compact)
{
	compact_say(compact, CLI_USAGE, "compact", "no memory for the list of traces");
}

/* Members in order: make a group of each stretch with one key. */
static bool make_groups(struct compact *compact, const struct member *member, size_t count)
{
	compact->group = calloc(count, sizeof(*compact->group));
	if (!compact->group) {
		no_memory(compact);
		return false;
	}
	for (size_t i = 0, end; i < count; i = end) {
		for (end = i + 1; end < count && strcmp(member[i].key, member[end].key) == 0;)
			end++;
		if (!check_doubles(compact, member + i, end - i) ||
		    !check_roots(compact, member + i, end - i))
			return false;
		if (!fill_group(compact, &compact->group[compact->groups++], member + i, end - i) ||
		    !split_processes(compact, member + i)) {
			no_memory(compact);
			return false;
		}
	}
	return check_names(compact);
}

bool compact_find_groups(struct compact *compact)
{
	size_t count = compact->traces.count;
	struct member *member = calloc(count, sizeof(*member));
	bool good = member != NULL;

	for (size_t i = 0; i < count && good; i++) {
		struct member *next = &member[i];

		next->file = &compact->traces.file[i];
		next->stem = stem_of(next->file->path);
		if (next->stem) {
			next->rank = rank_of(next->file, next->stem);
			next->child = cut_pid(next->stem);
			next->key = key_of(compact, next);
		}
		good = next->key != NULL;
	}
	if (!good) {
		no_memory(compact);
	} else {
		qsort(member, count, sizeof(*member), compare);
		good = check_runs(compact, member, count) && make_groups(compact, member, count);
	}
	for (size_t i = 0; member && i < count; i++) {
		free(member[i].stem);
		free(member[i].key);
	}
	free(member);
	return good;
}

void compact_free_groups(struct compact *compact)
{
	for (size_t i = 0; i < compact->groups; i++) {
		free(compact->group[i].directory);
		free(compact->group[i].name);
		free(compact->group[i].base);
		free(compact->group[i].file);
		pfw_manifest_free(compact->group[i].left);
	}
	free(compact->group);
	compact->group = NULL;
	compact->groups = 0;
}
