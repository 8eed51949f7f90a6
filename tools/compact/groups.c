/* tools/compact/groups.c - decides which traces become which compacted file. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/order.h"
#include "compact/compact.h"
#include "store/kit/grow.h"
#include "store/read/blocks.h"
#include "store/sys/open.h"
#include "store/traces/paths.h"
#include "store/traces/processes.h"

/* Files with equal keys become one file. */
struct key {
	enum { PROCESS, ROOT, RANK, FOREIGN } kind;
	const char *run;  /* "" for PROCESS and FOREIGN */
	int64_t rank;	  /* of RANK; -1: all ranks of the run */
	const char *text; /* PROCESS: the path; ROOT: the stem; FOREIGN: the directory */
	size_t bytes;
};

struct member {
	struct pfw_trace_file *file;
	char *stem; /* its name without suffix and without -pidNNN */
	struct key key;
	int64_t rank;
	bool child; /* its name has -pidNNN */
};

/* ---- names ---- */

static char *stem_of(const char *path)
{
	size_t bytes;
	const char *stem = pfw_paths_stem(path, &bytes);

	return strndup(stem, bytes);
}

/* Find the last `word` followed by digits and by the end, `-` or `.` in a stem.  *end is the place
 * after the digits. */
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

/* Cut "t-rank0003-pid77.2" to "t-rank0003".  Return whether the name is a child's. */
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

/* The common name of all ranks: "t" for "t-rank0003" and "t-launcher-host". */
static char *base_of(const char *stem)
{
	char *base = strdup(stem), *end, *at;

	if (!base)
		return NULL;
	at = find_word(base, "-rank", &end);
	at = at ?: strstr(base, "-launcher-");
	if (at && at != base)
		*at = '\0';
	return base;
}

bool compact_directory(char directory[PATH_MAX], const char *path)
{
	size_t bytes;
	const char *from = pfw_directory_of(path, &bytes);
	bool differs = strlen(directory) != bytes || memcmp(directory, from, bytes) != 0;

	snprintf(directory, PATH_MAX, "%.*s", (int)bytes, from);
	return differs;
}

/* ---- keys ---- */

/* Length of a stem without `.N`, which a second file of the same name has (exec, an older run). */
static size_t unnumbered(const char *stem)
{
	const char *dot = strrchr(stem, '.');

	return dot && dot != stem && dot[1] && !dot[1 + strspn(dot + 1, "0123456789")]
		       ? (size_t)(dot - stem)
		       : strlen(stem);
}

static struct key key_of(const struct compact *compact, const struct member *member)
{
	const struct pfw_trace *head = &member->file->head;
	struct key key = { .kind = RANK, .run = head->run, .rank = -1, .text = "" };

	if (compact->split == COMPACT_BY_PROCESS) {
		key.kind = PROCESS;
		key.run = "";
		key.text = member->file->path;
		key.bytes = strlen(key.text);
	} else if (!head->ours) { /* another tool's: one group per directory */
		key.kind = FOREIGN;
		key.run = "";
		key.text = pfw_directory_of(member->file->path, &key.bytes);
	} else if (compact->split != COMPACT_INTO_ONE && member->rank >= 0) {
		key.rank = member->rank;
	} else if (compact->split != COMPACT_INTO_ONE) {
		key.kind = ROOT;
		key.text = member->stem;
		key.bytes = unnumbered(member->stem);
	}
	return key;
}

static int compare_keys(const struct key *a, const struct key *b)
{
	size_t least = a->bytes < b->bytes ? a->bytes : b->bytes;

	return PFW_ORDER(a->kind, b->kind) ?: strcmp(a->run, b->run) ?:
	       PFW_ORDER(a->rank, b->rank) ?: memcmp(a->text, b->text, least) ?:
	       PFW_ORDER(a->bytes, b->bytes);
}

/* Sort by group; in a group by rank, roots before children, then by start time. */
static int compare(const void *a, const void *b)
{
	const struct member *x = a, *y = b;
	const struct pfw_trace *of_x = &x->file->head, *of_y = &y->file->head;

	return compare_keys(&x->key, &y->key) ?: PFW_ORDER(x->rank, y->rank) ?:
	       PFW_ORDER(x->child, y->child) ?: PFW_ORDER(of_x->start_ns, of_y->start_ns) ?:
	       PFW_ORDER(of_x->pid, of_y->pid) ?: strcmp(x->file->path, y->file->path);
}

/* ---- what must not be merged ---- */

static bool same_process(const struct pfw_trace *a, const struct pfw_trace *b)
{
	return a->ours && b->ours && a->pid == b->pid && strcmp(a->host, b->host) == 0;
}

/* Two files with the same first line: one was made from the other. */
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

/* Two roots are allowed only for one process: a program that calls exec has two files. */
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

/* The longest common prefix of the stems of another tool's files, without trailing separators. */
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

/* Add the group of some members.  NULL: no memory. */
static struct compact_group *add_group(struct compact *compact, const struct member *member,
				       size_t count)
{
	struct compact_group *group;
	char *stem = result_stem(compact, member, count), *path = NULL, directory[PATH_MAX] = "";
	struct stat st;

	if (PFW_APPEND(compact->group, compact->groups, (struct compact_group){ 0 })) {
		free(stem);
		return NULL;
	}
	group = &compact->group[compact->groups - 1];
	group->run = member->file->head.run;
	group->rank = compact->split == COMPACT_INTO_ONE ? -1 : member->rank;
	group->count = count;
	compact_directory(directory, member->file->path);
	group->directory = strdup(compact->out ? compact->out : directory);
	group->file = calloc(count, sizeof(struct pfw_trace_file *));
	group->rank_of = calloc(count, sizeof(*group->rank_of));
	group->base = stem ? base_of(stem) : NULL;
	if (!stem || asprintf(&group->name, "%s.pfw.gz", stem) < 0)
		group->name = NULL;
	free(stem);
	if (!group->directory || !group->file || !group->rank_of || !group->base || !group->name ||
	    asprintf(&path, "%s/%s", group->directory, group->name) < 0)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		group->file[i] = member[i].file;
		group->rank_of[i] = member[i].rank;
		group->bytes_before += member[i].file->blocks.file_bytes;
	}
	if (compact_removes(compact) && lstat(path, &st) == 0) {
		for (size_t i = 0; i < count; i++)
			group->replaces |= group->file[i]->device == st.st_dev &&
					   group->file[i]->inode == st.st_ino;
	}
	free(path);
	return group;
}

/* ---- splitting a file of several processes ---- */

/* Add a group for one more process of the same file. */
static bool add_process(struct compact *compact, const struct member *member, uint64_t pid,
			uint64_t lines)
{
	struct compact_group *group = add_group(compact, member, 1);
	char *stem;

	if (!group)
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

/* Make a group for each process of a compacted file, first for the one that it begins with. */
static bool split_processes(struct compact *compact, const struct member *member)
{
	const struct pfw_processes *processes = member->file->processes;
	size_t first = compact->groups - 1;
	struct pfw_marks marks;
	bool good = true;

	if (compact->split != COMPACT_BY_PROCESS || !processes || !processes->count ||
	    pfw_marks_read(&marks, member->file->path, &member->file->blocks) || !marks.marked ||
	    marks.one_pid)
		return true;
	compact->group[first].pid = member->file->head.pid;
	compact->group[first].split_lines = marks.lines;
	for (size_t i = 0; i < processes->count && good; i++) {
		const struct pfw_trace *head = &processes->head[i];

		if (is_known(compact, first, head->pid))
			continue;
		good = add_process(compact, member, head->pid, marks.lines);
		if (good && head->rank >= 0)
			compact->group[compact->groups - 1].rank = head->rank;
	}
	return good;
}

static void no_memory(struct compact *compact)
{
	compact_say(compact, CLI_USAGE, "compact", "no memory for the list of traces");
}

/* By the path of the result, then in order of the groups. */
static int by_result(const void *a, const void *b)
{
	const struct compact_group *x = *(const struct compact_group *const *)a;
	const struct compact_group *y = *(const struct compact_group *const *)b;

	return strcmp(x->name, y->name) ?: strcmp(x->directory, y->directory) ?: PFW_ORDER(x, y);
}

/* Files of one name in two directories would become one result with -o. */
static bool check_names(struct compact *compact)
{
	const struct compact_group **order = calloc(compact->groups + 1, sizeof(*order));
	bool good = true;

	if (!order) {
		no_memory(compact);
		return false;
	}
	for (size_t i = 0; i < compact->groups; i++)
		order[i] = &compact->group[i];
	qsort(order, compact->groups, sizeof(*order), by_result);
	for (size_t i = 1; i < compact->groups && good; i++) {
		const struct compact_group *a = order[i], *b = order[i - 1];

		good = strcmp(a->name, b->name) || strcmp(a->directory, b->directory);
		if (!good)
			compact_say(compact, CLI_USAGE, a->file[0]->path,
				    "and %s would both become %s: compact them one by one",
				    cli_name(b->file[0]->path), cli_name(a->name));
	}
	free(order);
	return good;
}

/* A rank that only the name of its file has would be nowhere in a file of all ranks. */
static bool check_ranks_named(struct compact *compact, const struct member *member, size_t count)
{
	for (size_t i = 0; i < count && compact->split == COMPACT_INTO_ONE; i++) {
		if (!member[i].file->head.named)
			continue;
		compact_say(
			compact, CLI_USAGE, member[i].file->path,
			"the program set its rank late, so that only the file's name has the rank, "
			"and a file of all ranks (--split-by none) would lose it; write one file "
			"per rank");
		return false;
	}
	return true;
}

/* Make a group of each run of sorted members with equal keys. */
static bool make_groups(struct compact *compact, const struct member *member, size_t count)
{
	for (size_t i = 0, end; i < count; i = end) {
		for (end = i + 1;
		     end < count && compare_keys(&member[i].key, &member[end].key) == 0;)
			end++;
		if (!check_doubles(compact, member + i, end - i) ||
		    !check_roots(compact, member + i, end - i))
			return false;
		if (!add_group(compact, member + i, end - i) ||
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
		good = next->stem != NULL;
		if (good) {
			next->rank = next->file->head.rank;
			next->child = cut_pid(next->stem);
			next->key = key_of(compact, next);
		}
	}
	if (!good) {
		no_memory(compact);
	} else {
		qsort(member, count, sizeof(*member), compare);
		good = check_runs(compact, member, count) &&
		       check_ranks_named(compact, member, count) &&
		       make_groups(compact, member, count);
	}
	for (size_t i = 0; member && i < count; i++)
		free(member[i].stem);
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
		free(compact->group[i].rank_of);
	}
	free(compact->group);
	compact->group = NULL;
	compact->groups = 0;
}
