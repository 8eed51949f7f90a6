/* manifest_check.c - whether the files that a manifest names are there, and are what it says. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "manifest.h"
#include "manifest_text.h"
#include "marks.h"

#define NAME_ROOM 256u

struct checking {
	const char *directory;
	void (*say)(void *user, const char *text);
	void *user;
	uint64_t files, lines;
};

__attribute__((format(printf, 2, 3))) static void say(const struct checking *checking,
						      const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	checking->say(checking->user, text);
}

/* ---- one file ---- */

/* What the headers of a file's members say, against the manifest. */
static void compare(const struct checking *checking, const char *name, const char *path,
		    const struct pfw_slice *object)
{
	uint64_t bytes = 0, lines = 0, checksum;
	struct pfw_blocks blocks;
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

/* ---- all of it ---- */

static void check_text(struct checking *checking, const struct pfw_manifest_text *text)
{
	struct pfw_value item, totals;
	struct pfw_reader files;
	uint64_t lines = 0;

	if (!pfw_manifest_text_list(text, "files", &files)) {
		say(checking, "no `files` in it");
		return;
	}
	while (pfw_manifest_text_next(&files, &item)) {
		if (item.type == PFW_VALUE_OBJECT)
			check_file(checking, &item.text);
		else
			say(checking, "`files` holds something that is no file");
	}
	if (!pfw_object_find(&text->whole, "totals", &totals) || totals.type != PFW_VALUE_OBJECT ||
	    !pfw_manifest_text_u64(&totals.text, "lines", &lines) || lines != checking->lines)
		say(checking, "its totals are not those of its files");
}

int pfw_manifest_check(const char *path, void (*tell)(void *user, const char *text), void *user)
{
	const char *slash = strrchr(path, '/');
	struct checking checking = { .say = tell, .user = user };
	struct pfw_manifest_text text;
	char *directory, why[256];
	int error = pfw_manifest_text_read(&text, path, why, sizeof(why));

	if (error == -EBADMSG)
		say(&checking, "%s", why);
	if (error)
		return error == -EBADMSG ? 0 : error;
	directory = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
	checking.directory = directory;
	if (directory)
		check_text(&checking, &text);
	pfw_manifest_text_free(&text);
	free(directory);
	return directory ? 0 : -ENOMEM;
}
