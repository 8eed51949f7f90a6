/* store/commit/journal.c - the text of a journal: what is renamed, and what is removed then. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/commit/internal.h"
#include "store/line/hash.h"
#include "store/sys/full_io.h"

#define JOURNAL_MAX (256u << 20) /* many times 10,000 originals with paths of 4 KiB */
#define MAGIC "pfw compact journal 1"

/* Fields end in NUL, the only byte that no path has. */
static bool put_journal(FILE *out, const struct pfw_commit *commit)
{
	fprintf(out, MAGIC "%c", 0);
	for (size_t i = 0; i < commit->made_count; i++)
		fprintf(out, "name%c%s%c%s%c%" PRIu64 " %" PRIu64 "%c", 0,
			commit->made[i].temporary, 0, commit->made[i].name, 0,
			commit->made[i].device, commit->made[i].inode, 0);
	for (size_t i = 0; i < commit->old_count; i++) {
		const struct pfw_commit_old *old = &commit->old[i];

		fprintf(out, "remove%c%s%c%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRId64 "%c", 0,
			old->path, 0, old->device, old->inode, old->bytes, old->changed_ns, 0);
	}
	return !ferror(out);
}

char *pfw_journal_make(const struct pfw_commit *commit, size_t *bytes)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, bytes);

	if (!out)
		return NULL;
	if (!put_journal(out, commit) || fflush(out) ||
	    fprintf(out, "end%c%016" PRIx64 "%c", 0, pfw_linehash(text, *bytes), 0) < 0 ||
	    fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}

static const char *next_field(struct pfw_journal *journal)
{
	const char *field = journal->at, *end = journal->text + journal->bytes;
	const char *nul = field < end ? memchr(field, 0, (size_t)(end - field)) : NULL;

	journal->at = nul ? nul + 1 : end;
	return nul ? field : NULL;
}

bool pfw_journal_is_whole(const struct pfw_journal *journal)
{
	char end[32];
	size_t tail = 4 + 17;

	if (journal->bytes < tail + sizeof(MAGIC) || strcmp(journal->text, MAGIC) != 0)
		return false;
	snprintf(end, sizeof(end), "%016" PRIx64,
		 pfw_linehash(journal->text, journal->bytes - tail));
	return memcmp(journal->text + journal->bytes - tail, "end", 4) == 0 &&
	       memcmp(journal->text + journal->bytes - 17, end, 17) == 0;
}

/* Whether a journal in this directory may change a name. */
static bool is_inside(const struct pfw_commit *commit, const char *path, const char *prefix)
{
	size_t bytes = strlen(commit->directory);

	return strncmp(path, commit->directory, bytes) == 0 && path[bytes] == '/' &&
	       !strchr(path + bytes + 1, '/') &&
	       strncmp(path + bytes + 1, prefix, strlen(prefix)) == 0;
}

static int parse_name(struct pfw_commit *commit, struct pfw_journal *journal)
{
	const char *temporary = next_field(journal), *name = next_field(journal);
	const char *figures = next_field(journal);
	struct pfw_commit_new *made;
	uint64_t device, inode;

	if (!figures || !is_inside(commit, temporary, PFW_COMMIT_PREFIX) ||
	    !is_inside(commit, name, "") ||
	    sscanf(figures, "%" SCNu64 " %" SCNu64, &device, &inode) != 2)
		return -EINVAL;
	made = pfw_commit_add_new(commit, temporary, name);
	if (!made)
		return -ENOMEM;
	made->device = device;
	made->inode = inode;
	return 0;
}

static int parse_remove(struct pfw_commit *commit, struct pfw_journal *journal)
{
	const char *path = next_field(journal), *figures = next_field(journal);
	uint64_t device, inode, bytes;
	int64_t changed_ns;
	int error;

	if (!figures || sscanf(figures, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNd64, &device,
			       &inode, &bytes, &changed_ns) != 4)
		return -EINVAL;
	error = pfw_commit_remove(commit, path, device, inode, bytes, changed_ns);
	/* It may have been removed before we were killed. */
	return error == -ENOENT || error == -ENOTDIR ? 0 : error;
}

int pfw_journal_parse(struct pfw_commit *commit, struct pfw_journal *journal)
{
	const char *field;
	int error = 0;

	journal->at = journal->text;
	next_field(journal);
	while (!error && (field = next_field(journal)) && strcmp(field, "end") != 0)
		error = strcmp(field, "name") == 0     ? parse_name(commit, journal)
			: strcmp(field, "remove") == 0 ? parse_remove(commit, journal)
						       : -EINVAL;
	return error;
}

int pfw_journal_read(int fd, struct pfw_journal *journal)
{
	struct stat st;

	/* Trust a journal only if nobody else can have written it: it says what to remove. */
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
	    (st.st_mode & 077) || (uint64_t)st.st_size > JOURNAL_MAX)
		return -EPERM;
	return pfw_full_read_file(fd, JOURNAL_MAX, &journal->text, &journal->bytes);
}
