/* store/manifest/check.c - checks the files that a manifest names against the manifest. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "store/manifest/internal.h"
#include "store/read/blocks.h"

#define NAME_ROOM 256u

struct checking {
	const char *directory;
	void (*say)(void *user, const char *text);
	void *user;
	uint64_t files, lines;
	struct pfw_manifest *made; /* what it should be */
	bool differs;		   /* a file is not the one that it names: do not compare further */
};

__attribute__((format(printf, 2, 3))) static void say(struct checking *checking, const char *format,
						      ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	checking->differs = true;
	checking->say(checking->user, text);
}

/* ---- one file ---- */

/* Compare the headers of a file's members with the manifest. */
static void compare(struct checking *checking, const char *name, const char *path,
		    const struct pfw_slice *object)
{
	uint64_t bytes = 0, lines = 0, checksum;
	struct pfw_blocks blocks;
	struct pfw_value rank;
	int64_t number = -1;
	int error;
	struct pfw_marks marks;
	char sum[32] = "";
	struct stat st;

	if (!pfw_manifest_text_u64(object, "bytes", &bytes) ||
	    !pfw_manifest_text_u64(object, "lines", &lines) ||
	    !pfw_manifest_text_string(object, "checksum", sum, sizeof(sum))) {
		say(checking, "file %s: no bytes, lines or checksum of it", name);
		return;
	}
	if (lstat(path, &st) < 0) {
		say(checking, "file %s: %s", name, strerror(errno));
	} else if (!S_ISREG(st.st_mode)) {
		say(checking, "file %s: not a regular file", name);
	} else if ((uint64_t)st.st_size != bytes) {
		say(checking, "file %s has %" PRIu64 " bytes, and the manifest says %" PRIu64, name,
		    (uint64_t)st.st_size, bytes);
	} else if (pfw_blocks_find(&blocks, path) == 0) {
		checksum = strtoull(sum, NULL, 16);
		if (pfw_marks_read(&marks, path, &blocks) || !marks.marked ||
		    marks.lines != lines || marks.checksum != checksum)
			say(checking, "file %s is another: its lines are not those of the manifest",
			    name);
		else if (!pfw_slice_find(object, "rank", &rank) || !pfw_value_i64(&rank, &number))
			say(checking, "file %s: no rank of it", name);
		else if ((error = pfw_manifest_remake(checking->made, name, number, path, &blocks,
						      &marks)))
			say(checking, "file %s cannot be read: %s", name, strerror(-error));
		pfw_blocks_free(&blocks);
	}
}

static void check_file(struct checking *checking, const struct pfw_slice *object)
{
	char name[NAME_ROOM], *path;
	uint64_t lines = 0;

	checking->files++;
	if (!pfw_manifest_text_string(object, "file", name, sizeof(name))) {
		say(checking, "file %" PRIu64 " of it has no name", checking->files);
		return;
	}
	if (pfw_manifest_text_leads_out(name)) {
		say(checking, "file %s: a name that leads out of the manifest's directory: refused",
		    name);
		return;
	}
	pfw_manifest_text_u64(object, "lines", &lines);
	checking->lines += lines;
	if (asprintf(&path, "%s/%s", checking->directory, name) < 0)
		return;
	compare(checking, name, path, object);
	free(path);
}

/* ---- the whole manifest ---- */

/* Whether an object has all members of another one; else report the first difference. */
static bool has_members(struct checking *checking, const struct pfw_slice *object,
			const struct pfw_slice *should, const char *what, size_t number)
{
	struct pfw_slice key;
	struct pfw_value is, value;
	struct pfw_walk walk;
	char word[32];

	pfw_walk_init(&walk, should);
	while (pfw_walk_next(&walk, &key, &value)) {
		snprintf(word, sizeof(word), "%.*s", (int)key.bytes, key.at);
		/* Keys that are not compared: the version that wrote the manifest, and lists, whose elements are. */
		if (strcmp(word, "version") == 0 ||
		    (value.type == PFW_VALUE_ARRAY && !number && strcmp(word, "ranks") != 0))
			continue;
		if (pfw_slice_find(object, word, &is) && is.type == value.type &&
		    is.text.bytes == value.text.bytes &&
		    memcmp(is.text.at, value.text.at, is.text.bytes) == 0)
			continue;
		if (number)
			say(checking, "`%s` of number %zu of its `%s` is not what its files say",
			    word, number, what);
		else
			say(checking, "its `%s` is not what its files say", word);
		return false;
	}
	return true;
}

static void compare_lists(struct checking *checking, const struct pfw_manifest_text *is,
			  const struct pfw_manifest_text *should, const char *what)
{
	struct pfw_value a, b;
	struct pfw_walk x, y;
	bool more = pfw_manifest_text_list(is, what, &x), wanted;

	pfw_manifest_text_list(should, what, &y);
	for (size_t number = 1;; number++) {
		more = more && pfw_elements_next(&x, &a);
		wanted = pfw_elements_next(&y, &b);
		if (!wanted && !more)
			return;
		if (!wanted || !more || a.type != PFW_VALUE_OBJECT) {
			say(checking, "its `%s` are not those of its files", what);
			return;
		}
		if (!has_members(checking, &a.text, &b.text, what, number))
			return;
	}
}

/* Compare it with the one that compacting its files would have written. */
static int compare_all(struct checking *checking, const struct pfw_manifest_text *text)
{
	const struct pfw_manifest_file *wrong = pfw_manifest_wrong_rank(checking->made);
	struct pfw_manifest_text should;
	char *json = NULL, why[256];
	size_t bytes = 0;
	FILE *out;
	int error;

	if (wrong) {
		say(checking, "file %s has another rank than its processes", wrong->name);
		return 0;
	}
	out = open_memstream(&json, &bytes);
	if (!out)
		return -ENOMEM;
	error = pfw_manifest_write(checking->made, out);
	if (fclose(out) && !error)
		error = -ENOMEM;
	if (error)
		free(json);
	else
		error = pfw_manifest_text_take(&should, json, bytes, why, sizeof(why));
	if (error)
		return error;
	if (has_members(checking, &text->whole, &should.whole, "", 0)) {
		compare_lists(checking, text, &should, "hosts");
		compare_lists(checking, text, &should, "files");
		compare_lists(checking, text, &should, "processes");
	}
	pfw_manifest_text_free(&should);
	return 0;
}

static int check_text(struct checking *checking, const struct pfw_manifest_text *text)
{
	struct pfw_value item, totals;
	struct pfw_walk files;
	uint64_t lines = 0;

	if (!pfw_manifest_text_list(text, "files", &files)) {
		say(checking, "no `files` in it");
		return 0;
	}
	while (pfw_elements_next(&files, &item)) {
		if (item.type == PFW_VALUE_OBJECT)
			check_file(checking, &item.text);
		else
			say(checking, "`files` holds something that is no file");
	}
	if (!pfw_slice_find(&text->whole, "totals", &totals) || totals.type != PFW_VALUE_OBJECT ||
	    !pfw_manifest_text_u64(&totals.text, "lines", &lines) || lines != checking->lines)
		say(checking, "its totals are not those of its files");
	return checking->differs ? 0 : compare_all(checking, text);
}

int pfw_manifest_check(const char *path, void (*tell)(void *user, const char *text), void *user)
{
	const char *slash = strrchr(path, '/');
	struct checking checking = { .say = tell, .user = user };
	struct pfw_manifest_text text;
	char *directory, run[NAME_ROOM], why[256];
	int error = pfw_manifest_text_read(&text, path, why, sizeof(why));

	if (error == -EBADMSG)
		say(&checking, "%s", why);
	if (error)
		return error == -EBADMSG ? 0 : error;
	directory = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
	checking.directory = directory;
	checking.made = pfw_manifest_new(
		pfw_manifest_text_string(&text.whole, "run", run, sizeof(run)) ? run : "");
	error = directory && checking.made ? check_text(&checking, &text) : -ENOMEM;
	pfw_manifest_free(checking.made);
	pfw_manifest_text_free(&text);
	free(directory);
	return error;
}
