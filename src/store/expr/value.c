/* store/expr/value.c - values of expressions: reading, arithmetic, comparison. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "store/expr/internal.h"

/* ---- numbers ---- */

/* Split decimal text into mantissa * 10^exponent; false: it needs more than 37 digits. */
static bool take_apart(const char *at, const char *end, __int128 *mantissa, long *exponent)
{
	int digits = 0;
	bool negative = at < end && *at == '-', point = false;
	long power = 0, zeroes = 0;

	*mantissa = 0;
	*exponent = 0;
	for (at += negative; at < end && (*at | 0x20) != 'e'; at++) {
		if (*at == '.') {
			point = true;
			continue;
		}
		*exponent -= point;
		if (*at == '0') { /* perhaps a trailing zero: 1.5000000 */
			zeroes++;
			continue;
		}
		for (; zeroes; zeroes--) {
			digits += *mantissa != 0;
			*mantissa *= 10;
			if (digits > 36)
				return false;
		}
		*mantissa = *mantissa * 10 + (*at - '0');
		if (++digits > 36)
			return false;
	}
	if (at < end) {
		power = strtol(at + 1, NULL, 10);
		if (power > 1000 || power < -1000)
			return false;
	}
	*exponent += zeroes + power;
	*mantissa = negative ? -*mantissa : *mantissa;
	return true;
}

struct pfw_number pfw_number_read(const struct pfw_slice *text)
{
	struct pfw_number number = { .exact = true };
	long exponent;

	if (take_apart(text->at, text->at + text->bytes, &number.thousandths, &exponent)) {
		exponent += 3;
		if (!number.thousandths)
			return number;
		for (; exponent > 0; exponent--) {
			if (__builtin_mul_overflow(number.thousandths, (__int128)10,
						   &number.thousandths))
				break;
		}
		if (exponent == 0)
			return number;
	}
	return (struct pfw_number){ .real = pfw_slice_f64(text) };
}

static double real_of(const struct pfw_number *number)
{
	if (!number->exact)
		return number->real;
	if (number->thousandths % 1000 == 0)
		return (double)(number->thousandths / 1000);
	return (double)((long double)number->thousandths / 1000);
}

static bool exactly(enum pfw_op op, __int128 a, __int128 b, __int128 *result)
{
	switch (op) {
	case PFW_OP_ADD:
		return !__builtin_add_overflow(a, b, result);
	case PFW_OP_SUB:
		return !__builtin_sub_overflow(a, b, result);
	case PFW_OP_MUL:
		if (__builtin_mul_overflow(a, b, &b) || b % 1000 != 0)
			return false;
		*result = b / 1000;
		return true;
	default:
		if (__builtin_mul_overflow(a, (__int128)1000, &a) || a % b != 0)
			return false;
		*result = a / b;
		return true;
	}
}

static double about(enum pfw_op op, double a, double b)
{
	return op == PFW_OP_ADD	  ? a + b
	       : op == PFW_OP_SUB ? a - b
	       : op == PFW_OP_MUL ? a * b
				  : a / b;
}

struct pfw_operand pfw_operand_calculate(enum pfw_op op, const struct pfw_operand *left,
					 const struct pfw_operand *right)
{
	const struct pfw_number *a = &left->number, *b = &right->number;
	struct pfw_operand result = { .type = PFW_OPERAND_NULL };

	if (left->type != PFW_OPERAND_NUMBER || right->type != PFW_OPERAND_NUMBER ||
	    (op == PFW_OP_DIV && (b->exact ? b->thousandths == 0 : b->real == 0)))
		return result;
	result.type = PFW_OPERAND_NUMBER;
	result.number.exact =
		a->exact && b->exact &&
		exactly(op, a->thousandths, b->thousandths, &result.number.thousandths);
	if (!result.number.exact)
		result.number.real = about(op, real_of(a), real_of(b));
	return result;
}

/* ---- comparisons ---- */

/* -1, 0, 1; 2 if one is NaN. */
static int order_numbers(const struct pfw_number *a, const struct pfw_number *b)
{
	double left, right;

	if (a->exact && b->exact)
		return a->thousandths < b->thousandths ? -1 : a->thousandths > b->thousandths;
	left = real_of(a);
	right = real_of(b);
	if (isnan(left) || isnan(right))
		return 2;
	return left < right ? -1 : left > right;
}

static int order_texts(const struct pfw_slice *a, const struct pfw_slice *b)
{
	size_t least = a->bytes < b->bytes ? a->bytes : b->bytes;
	int order = memcmp(a->at, b->at, least);

	if (order == 0)
		return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
	return order < 0 ? -1 : 1;
}

static bool equal(const struct pfw_operand *left, const struct pfw_operand *right)
{
	if (left->type != right->type)
		return false;
	switch (left->type) {
	case PFW_OPERAND_NULL:
		return true;
	case PFW_OPERAND_TRUTH:
		return left->truth == right->truth;
	case PFW_OPERAND_NUMBER:
		return order_numbers(&left->number, &right->number) == 0;
	case PFW_OPERAND_TEXT:
		return left->text.bytes == right->text.bytes &&
		       memcmp(left->text.at, right->text.at, left->text.bytes) == 0;
	default:
		return false;
	}
}

bool pfw_operand_compare(enum pfw_op op, const struct pfw_operand *left,
			 const struct pfw_operand *right)
{
	int order;

	if (op == PFW_OP_EQ || op == PFW_OP_NE)
		return equal(left, right) == (op == PFW_OP_EQ);
	if (left->type != right->type)
		return false;
	if (left->type == PFW_OPERAND_NUMBER)
		order = order_numbers(&left->number, &right->number);
	else if (left->type == PFW_OPERAND_TEXT)
		order = order_texts(&left->text, &right->text);
	else
		return false;
	return pfw_op_holds(op, order);
}
