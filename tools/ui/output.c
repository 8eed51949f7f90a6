/* tools/ui/output.c - the destination of a command's results; see output.h. */
#include "ui/output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/sys/open.h"

#define BUFFER_BYTES (256u << 10)

static int refuse(const struct output *output, const char *why)
{
	return cli_error(output->command->name, "%s %s", cli_name(output->path), why);
}

static bool is_standard(const char *path)
{
	return !path || strcmp(path, "-") == 0;
}

int output_check(const struct cli_command *command, const char *path, bool force)
{
	const struct output output = { .command = command, .path = path };
	struct stat st;

	if (is_standard(path) || lstat(path, &st) < 0)
		return CLI_OK;
	/* Behind a link may be a directory, a device or a pipe. */
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return refuse(&output, "is a directory: name a file");
	if (force || (stat(path, &st) == 0 && !S_ISREG(st.st_mode)))
		return CLI_OK;
	return refuse(&output, "exists already: --force replaces it");
}

static int open_temporary(struct output *output)
{
	size_t size = strlen(output->path) + 32;
	int fd;

	output->temporary = malloc(size);
	if (!output->temporary)
		return refuse(output, strerror(ENOMEM));
	snprintf(output->temporary, size, "%s.tmp%ld", output->path, (long)getpid());
	fd = pfw_open_new(output->temporary, 0600);
	output->file = fd < 0 ? NULL : fdopen(fd, "w");
	if (output->file)
		return CLI_OK;
	cli_error(output->command->name, "%s cannot be written: %s", cli_name(output->path),
		  strerror(fd < 0 ? -fd : errno));
	free(output->temporary);
	output->temporary = NULL;
	return CLI_USAGE;
}

int output_open(struct output *output, const struct cli_command *command, const char *path,
		bool force)
{
	struct stat st;
	int status = output_check(command, path, force);

	*output = (struct output){ .command = command, .path = path, .force = force };
	if (status != CLI_OK)
		return status;
	if (is_standard(path)) {
		output->path = NULL;
		output->file = stdout;
	} else if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
		output->file = fopen(path, "we");
		if (!output->file)
			return refuse(output, strerror(errno));
	} else {
		status = open_temporary(output);
	}
	if (status == CLI_OK)
		setvbuf(output->file, NULL, _IOFBF, BUFFER_BYTES);
	return status;
}

/* Say why the last write failed, once. */
static int failed(struct output *output)
{
	if (output->failed)
		return -EIO;
	output->failed = true;
	if (errno == EPIPE && !output->path) {
		output->gone = true;
		return -EIO;
	}
	cli_error(output->command->name, "%s cannot be written: %s",
		  output->path ? cli_name(output->path) : "the output", strerror(errno));
	return -EIO;
}

int output_write(struct output *output, const void *data, size_t bytes)
{
	return fwrite(data, 1, bytes, output->file) == bytes ? 0 : failed(output);
}

int output_flush(struct output *output)
{
	return fflush(output->file) == 0 ? 0 : failed(output);
}

static void discard(struct output *output)
{
	if (output->temporary)
		unlink(output->temporary);
	free(output->temporary);
	output->temporary = NULL;
}

void output_set_mode(struct output *output, mode_t mode)
{
	output->mode = mode;
}

/* A copy of a trace that others cannot read must not be for all to read. */
static void give_mode(const struct output *output)
{
	mode_t mask = umask(0);

	umask(mask);
	fchmod(fileno(output->file), (output->mode ? output->mode : 0666) & ~mask);
}

/* Give the file its name, which without --force must still be free. */
static int give_name(struct output *output)
{
	int error = 0;

	if (!output->force)
		error = pfw_rename_new(output->temporary, output->path);
	else if (rename(output->temporary, output->path) < 0)
		error = -errno;
	if (!error)
		return CLI_OK;
	return cli_error(output->command->name, "%s: %s", cli_name(output->path), strerror(-error));
}

int output_finish(struct output *output, int status)
{
	output_flush(output);
	if (output->temporary)
		give_mode(output);
	if (output->path && fclose(output->file) != 0)
		failed(output);
	/* libc drops a buffer it could not write: later writes may succeed, so `failed` decides. */
	if (output->failed && !output->gone)
		status = CLI_USAGE;
	else if (output->temporary && give_name(output) != CLI_OK)
		status = CLI_USAGE;
	discard(output);
	return status;
}

void output_abandon(struct output *output)
{
	if (output->path)
		fclose(output->file);
	discard(output);
}
