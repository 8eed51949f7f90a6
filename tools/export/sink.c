/* tools/export/sink.c - writes exported text, plain or as one gzip member.
 *
 * Some readers of .json.gz take only the first member of a file.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "common/base/text.h"
#include "export/export.h"

#define WRITE_BYTES (1u << 20)
#define LEVEL 3 /* 4 % larger than level 6 in a third of its time */

struct export_gzip {
	z_stream stream;
	unsigned char out[256 << 10];
};

static int open_gzip(struct export_sink *sink)
{
	sink->gzip = calloc(1, sizeof(*sink->gzip));
	if (!sink->gzip || deflateInit2(&sink->gzip->stream, LEVEL, Z_DEFLATED, 31, 9,
					Z_DEFAULT_STRATEGY) != Z_OK) {
		free(sink->gzip);
		sink->gzip = NULL;
		return -ENOMEM;
	}
	return 0;
}

int export_sink_open(struct export_sink *sink, struct output *output, const char *path, bool force)
{
	const struct cli_command *command = output->command;
	int status;

	*sink = (struct export_sink){ .output = output };
	status = output_open(output, command, path, force);
	if (status == CLI_OK && path && pfw_text_ends(path, ".gz") && open_gzip(sink)) {
		cli_error(command->name, "%s", strerror(ENOMEM));
		output_abandon(output);
		return CLI_USAGE;
	}
	return status;
}

static int deflate_all(struct export_sink *sink, const char *text, size_t bytes, int flush)
{
	struct export_gzip *gzip = sink->gzip;
	int result, error;

	gzip->stream.next_in = (Bytef *)(uintptr_t)text;
	gzip->stream.avail_in = (uInt)bytes;
	do {
		gzip->stream.next_out = gzip->out;
		gzip->stream.avail_out = sizeof(gzip->out);
		result = deflate(&gzip->stream, flush);
		error = output_write(sink->output, gzip->out,
				     sizeof(gzip->out) - gzip->stream.avail_out);
		if (error)
			return error;
	} while (gzip->stream.avail_out == 0 && result != Z_STREAM_END);
	return 0;
}

static int write_text(struct export_sink *sink)
{
	const char *at = sink->text.data;
	size_t left = sink->text.bytes;
	int error = 0;

	sink->text.bytes = 0;
	if (!sink->gzip)
		return left ? output_write(sink->output, at, left) : 0;
	while (left && !error) {
		size_t some = left < WRITE_BYTES ? left : WRITE_BYTES;

		error = deflate_all(sink, at, some, Z_NO_FLUSH);
		at += some;
		left -= some;
	}
	return error;
}

char *export_sink_room(struct export_sink *sink, size_t bytes)
{
	return pfw_buffer_room(&sink->text, sink->text.bytes + bytes)
		       ? NULL
		       : sink->text.data + sink->text.bytes;
}

int export_sink_used(struct export_sink *sink, const char *end)
{
	sink->text.bytes = (size_t)(end - sink->text.data);
	return sink->text.bytes >= WRITE_BYTES ? write_text(sink) : 0;
}

int export_sink_text(struct export_sink *sink, const char *text)
{
	return pfw_buffer_add(&sink->text, text, strlen(text))
		       ?: export_sink_used(sink, sink->text.data + sink->text.bytes);
}

int export_sink_again(struct export_sink *sink)
{
	struct stat st;
	int fd = fileno(sink->output->file);

	sink->text.bytes = 0;
	if (!sink->output->path || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -ESPIPE;
	if (fflush(sink->output->file) || ftruncate(fd, 0) < 0 ||
	    fseeko(sink->output->file, 0, SEEK_SET) < 0)
		return -errno;
	if (sink->gzip && deflateReset(&sink->gzip->stream) != Z_OK)
		return -EIO;
	return 0;
}

int export_sink_end(struct export_sink *sink)
{
	int error = write_text(sink);

	if (!error && sink->gzip)
		error = deflate_all(sink, "", 0, Z_FINISH);
	return error;
}

void export_sink_free(struct export_sink *sink)
{
	if (sink->gzip)
		deflateEnd(&sink->gzip->stream);
	free(sink->gzip);
	pfw_buffer_free(&sink->text);
	*sink = (struct export_sink){ 0 };
}
