/* tools/table/text.c - headers and cells of `pfw table`, for people; see columns.h. */
#include "table/columns.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const flops_units[] = { "", "K", "M", "G", "T", "P" };

/* The unit: log1000, at most 5. */
static unsigned thousands(int64_t flops)
{
	unsigned unit = 0;

	for (; flops >= 1000 && unit < CLI_ARRAY_LEN(flops_units) - 1; flops /= 1000)
		unit++;
	return unit;
}

static double scaled(double flops, unsigned unit)
{
	static const double scales[] = { 1, 1e-3, 1e-6, 1e-9, 1e-12, 1e-15 };

	return flops * scales[unit];
}

void table_column_header(const struct table_column *column, const struct table_view *view,
			 char *out, size_t size)
{
	const char *header = view->section == PFW_TABLE_IO ? column->io_header : column->header;
	const char *star = strchr(header, '*');

	if (column->kind == TABLE_FLOPS)
		snprintf(out, size, "Total %sFLOPs",
			 view->has_flops ? flops_units[thousands(view->least_flops)] : "");
	else if (star)
		snprintf(out, size, "%.*s%s%s", (int)(star - header), header, view->device,
			 star + 1);
	else
		snprintf(out, size, "%s", header);
}

void table_time_text(double time, char *out, size_t size)
{
	if (time >= 1000.0 * 1000.0)
		snprintf(out, size, "%.3fs", time / (1000.0 * 1000.0));
	else if (time >= 1000.0)
		snprintf(out, size, "%.3fms", time / 1000.0);
	else
		snprintf(out, size, "%.3fus", time);
}

/* Torch's form: two decimals from 1024 on. */
static void memory_text(double bytes, char *out, size_t size)
{
	static const char *const units[] = { " KB", " MB", " GB" };
	double scale = 1024;
	unsigned unit = 0;

	if (fabs(bytes) < scale) {
		snprintf(out, size, "%.0f B", bytes);
		return;
	}
	for (; unit < 2 && fabs(bytes) >= scale * 1024; unit++)
		scale *= 1024;
	snprintf(out, size, "%.2f%s", bytes / scale, units[unit]);
}

static void bytes_text(double bytes, const char *behind, char *out, size_t size)
{
	snprintf(out, size, "%s%s", cli_bytes(bytes < 0x1p63 ? (uint64_t)bytes : INT64_MAX),
		 behind);
}

static void flops_text(const struct table_column *column, double value,
		       const struct table_view *view, char *out, size_t size)
{
	unsigned most = thousands(view->most_flops);

	if (value <= 0)
		snprintf(out, size, "--");
	else if (column->kind == TABLE_SELF_FLOPS)
		snprintf(out, size, "%.3f%s", scaled(value, most), flops_units[most]);
	else
		snprintf(out, size, "%8.3f", scaled(value, thousands(view->least_flops)));
}

static void speed_text(double value, char *out, size_t size)
{
	unsigned unit = value < 1e18 ? thousands((int64_t)value) : CLI_ARRAY_LEN(flops_units) - 1;

	snprintf(out, size, "%.4g %sFLOP/s", scaled(value, unit), flops_units[unit]);
}

void table_column_text(const struct table_column *column, const struct pfw_average *row,
		       const struct table_view *view, char *out, size_t size)
{
	double value = table_column_value(column, row, view);

	if (isnan(value)) {
		snprintf(out, size, "%s",
			 column->kind == TABLE_YES ||
					 table_column_lacks(column, view) != UNRECORDED_KINDS
				 ? "-"
			 : column->kind != TABLE_PERCENT ? ""
			 : view->options->filtered	 ? "-"
							 : "NaN"); /* torch's word */
		return;
	}
	switch (column->kind) {
	case TABLE_TIME:
		table_time_text(value, out, size);
		break;
	case TABLE_PERCENT:
		snprintf(out, size, "%.2f%%", value);
		break;
	case TABLE_MEMORY:
		memory_text(value, out, size);
		break;
	case TABLE_COUNT:
		snprintf(out, size, "%.0f", value);
		break;
	case TABLE_BYTES:
		bytes_text(value, "", out, size);
		break;
	case TABLE_RATE:
		bytes_text(value, "/s", out, size);
		break;
	case TABLE_SPEED:
		speed_text(value, out, size);
		break;
	case TABLE_SHARE:
		snprintf(out, size, "%.3g%%", value);
		break;
	case TABLE_YES:
		snprintf(out, size, "yes");
		break;
	default:
		flops_text(column, value, view, out, size);
	}
}
