/* tools/compact/originals.c - which traces are merged at all, and which are removed then.
 *
 * Directories may belong to other users.  compact removes nothing through a symbolic link, no file that
 * is not a trace, and no file at all if one of them cannot be removed.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compact/compact.h"
#include "share/select_args.h"
#include "store/index/index.h"
#include "store/read/scan.h"
#include "store/sys/open.h"

#define LOOK_LINES 1000 /* other tools' traces begin with a few lines that are no events */
#define NAMES_SHOWN 8

bool compact_removes(const struct compact *compact)
{
	return !compact->keep && !select_args_any(&compact->select) && !compact->out;
}

static bool removes(const struct compact *compact, const struct compact_group *group)
{
	return compact_removes(compact) && !group->damaged;
}

/* ---- what is merged ---- */

/* Whether one of the first lines is an event, ours or DFTracer's. */
static bool has_event(const char *path)
{
	const unsigned kind = PFW_ENTRY_PH | PFW_ENTRY_TYPE;
	enum pfw_scan_result result = PFW_SCAN_LINE;
	struct pfw_scan scan;
	bool found = false;

	if (pfw_scan_open(&scan, path))
		return false;
	for (int i = 0; i < LOOK_LINES && !found && result != PFW_SCAN_END; i++) {
		result = pfw_scan_next(&scan);
		if (result == PFW_SCAN_FAILED)
			break;
		found = result == PFW_SCAN_LINE && scan.entry.kind == PFW_ENTRY_EVENT &&
			scan.entry.has & PFW_ENTRY_NAME && scan.entry.has & kind;
	}
	pfw_scan_close(&scan);
	return found;
}

static const char *why_not(const struct compact *compact, const struct pfw_trace_file *file)
{
	struct stat st;

	if (compact_removes(compact) && lstat(file->path, &st) == 0 && S_ISLNK(st.st_mode))
		return "a symbolic link: compact removes nothing through a link; name the file "
		       "that it leads to, or give --keep";
	if (!file->head.ours && !has_event(file->path))
		return "not a trace, since none of its lines is an event: left alone";
	return NULL;
}

bool compact_leave_out(struct compact *compact)
{
	struct pfw_traces *traces = &compact->traces;

	for (size_t i = 0; i < traces->count;) {
		const char *why = why_not(compact, &traces->file[i]);

		if (why) {
			compact_say(compact, CLI_PROBLEMS, traces->file[i].path, "%s", why);
			pfw_traces_drop(traces, i);
		} else {
			i++;
		}
	}
	if (!traces->count)
		compact->status = CLI_USAGE;
	return traces->count;
}

/* ---- what can be removed ---- */

/* Why a file cannot be removed from its directory; NULL: it can. */
static const char *why_stays(const char *directory, const char *path)
{
	struct stat in, st;

	if (access(directory, W_OK | X_OK) < 0)
		return strerror(errno);
	if (!geteuid() || stat(directory, &in) < 0 || lstat(path, &st) < 0 ||
	    !(in.st_mode & S_ISVTX) || in.st_uid == geteuid() || st.st_uid == geteuid())
		return NULL;
	return "it belongs to another user, in a sticky directory";
}

bool compact_check_originals(struct compact *compact)
{
	char directory[PATH_MAX] = "";

	for (size_t i = 0; i < compact->groups && compact_removes(compact); i++) {
		const struct compact_group *group = &compact->group[i];

		for (size_t j = 0; j < group->count; j++) {
			const char *path = group->file[j]->path, *why;

			compact_directory(directory, path);
			why = why_stays(directory, path);
			if (!why)
				continue;
			compact_say(compact, CLI_USAGE, path,
				    "cannot be removed once it is compacted: %s: --keep leaves all "
				    "originals, -o DIR writes elsewhere and leaves them, too",
				    why);
			return false;
		}
	}
	return true;
}

int compact_remove_originals(struct compact *compact, const struct compact_group *group,
			     struct pfw_commit *commit)
{
	char index[PATH_MAX];
	int error = 0;

	if (!removes(compact, group))
		return 0;
	for (size_t i = 0; i < group->count && !error; i++) {
		const struct pfw_trace_file *file = group->file[i];
		struct stat st;

		error = pfw_commit_remove(commit, file->path, file->device, file->inode,
					  file->blocks.file_bytes, file->changed_ns);
		/* An index of ours alone: the name may be somebody's file. */
		if (!error &&
		    snprintf(index, sizeof(index), "%s" PFW_INDEX_SUFFIX, file->path) <
			    (int)sizeof(index) &&
		    lstat(index, &st) == 0 && S_ISREG(st.st_mode) && pfw_index_is_one(index))
			error = pfw_commit_remove(commit, index, st.st_dev, st.st_ino,
						  (uint64_t)st.st_size, pfw_changed_ns(&st));
		if (error)
			compact_say(compact, CLI_USAGE, file->path, "%s", strerror(-error));
	}
	return error;
}

size_t compact_removed(const struct compact *compact, const struct compact_group *group)
{
	return removes(compact, group) && !group->replaces ? group->count : 0;
}

void compact_print_removed(const struct compact *compact, const struct compact_group *group)
{
	if (!compact_removed(compact, group))
		return;
	printf("  removed: ");
	for (size_t i = 0; i < group->count && i < NAMES_SHOWN; i++)
		printf("%s%s", i ? ", " : "", cli_name(group->file[i]->path));
	if (group->count > NAMES_SHOWN)
		printf(" and %s more", cli_count(group->count - NAMES_SHOWN));
	putchar('\n');
}
