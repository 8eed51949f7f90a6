/* manifest_check.c - whether the files that a manifest names are there, and are what it says. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "entry.h"
#include "jsonread.h"
#include "manifest.h"
#include "marks.h"

#define MANIFEST_MAX (256u << 20)
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

static bool figure(const struct pfw_slice *object, const char *key, uint64_t *number)
{
	struct pfw_value value;

	return pfw_object_find(object, key, &value) && pfw_value_u64(&value, number);
}

static bool text(const struct pfw_slice *object, const char *key, char *out, size_t size)
{
	struct pfw_value value;

	return pfw_object_find(object, key, &value) && value.type == PFW_VALUE_STRING &&
	       value.text.bytes && pfw_slice_decode(&value.text, out, size) + 1 < size;
}

/* What the headers of a file's members say, against the manifest. */
static void compare(const struct checking *checking, const char *name, const char *path,
		    const struct pfw_slice *object)
{
	uint64_t bytes = 0, lines = 0, checksum;
	struct pfw_blocks blocks;
	struct pfw_marks marks;
	char sum[32] = "";
	struct stat st;

	if (!figure(object, "bytes", &bytes) || !figure(object, "lines", &lines) ||
	    !text(object, "checksum", sum, sizeof(sum))) {
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
	if (!text(object, "file", name, sizeof(name))) {
		say(checking, "file %" PRIu64 " of it has no name", checking->files);
		return;
	}
	/* Whoever wrote it must not have us look at somebody else's files. */
	if (strchr(name, '/') || strcmp(name, "..") == 0 || strcmp(name, ".") == 0) {
		say(checking, "file %s: a name that leads out of the manifest's directory: refused",
		    name);
		return;
	}
	figure(object, "lines", &lines);
	checking->lines += lines;
	if (asprintf(&path, "%s/%s", checking->directory, name) < 0)
		return;
	compare(checking, name, path, object);
	free(path);
}

/* ---- all of it ---- */

static void check_files(struct checking *checking, const struct pfw_slice *list)
{
	struct pfw_reader reader = { .at = list->at + 1, .end = list->at + list->bytes };

	for (;;) {
		struct pfw_value value;

		pfw_reader_space(&reader);
		if (pfw_reader_at(&reader, ','))
			reader.at++;
		pfw_reader_space(&reader);
		if (pfw_reader_at(&reader, ']') || !pfw_reader_value(&reader, &value))
			return;
		if (value.type == PFW_VALUE_OBJECT)
			check_file(checking, &value.text);
		else
			say(checking, "`files` holds something that is no file");
	}
}

static void check_text(struct checking *checking, const char *json, size_t bytes)
{
	struct pfw_slice whole = { .at = json, .bytes = bytes };
	struct pfw_value files, totals;
	struct pfw_entry entry;
	uint64_t format = 0, lines = 0;

	pfw_entry_parse_any(&entry, json, bytes);
	if (entry.kind != PFW_ENTRY_EVENT) {
		say(checking, "not a manifest: %s at byte %zu",
		    entry.why ? entry.why : "no JSON object", entry.why_at);
		return;
	}
	while (whole.bytes && *whole.at != '{') {
		whole.at++;
		whole.bytes--;
	}
	if (!figure(&whole, "format", &format) || format != PFW_MANIFEST_FORMAT) {
		say(checking, "format %" PRIu64 " and this pfw knows %d: take a newer pfw", format,
		    PFW_MANIFEST_FORMAT);
		return;
	}
	if (!pfw_object_find(&whole, "files", &files) || files.type != PFW_VALUE_ARRAY) {
		say(checking, "no `files` in it");
		return;
	}
	check_files(checking, &files.text);
	if (!pfw_object_find(&whole, "totals", &totals) || totals.type != PFW_VALUE_OBJECT ||
	    !figure(&totals.text, "lines", &lines) || lines != checking->lines)
		say(checking, "its totals are not those of its files");
}

int pfw_manifest_check(const char *path, void (*tell)(void *user, const char *text), void *user)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	const char *slash = strrchr(path, '/');
	struct checking checking = { .say = tell, .user = user };
	char *json = NULL, *directory = NULL;
	int error = fd < 0 ? -errno : 0;
	struct stat st;
	ssize_t got;

	if (!error && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)))
		error = -ENODEV;
	if (!error && st.st_size > (off_t)MANIFEST_MAX)
		error = -EFBIG;
	directory = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
	if (!error && (!directory || !(json = malloc((size_t)st.st_size + 1))))
		error = -ENOMEM;
	if (!error) {
		got = pread(fd, json, (size_t)st.st_size, 0);
		checking.directory = directory;
		if (got < 0)
			error = -errno;
		else
			check_text(&checking, json, (size_t)got);
	}
	if (fd >= 0)
		close(fd);
	free(directory);
	free(json);
	return error;
}
