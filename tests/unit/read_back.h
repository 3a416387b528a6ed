/* tests/unit/read_back.h - one profile of the test's, and everything that it recorded. */
#ifndef TESTS_UNIT_READ_BACK_H
#define TESTS_UNIT_READ_BACK_H
#include "tests/test.h"

static mtp_profile *prof;
static seen s;

static void read_back(void)
{
    assert_ok(mtp_profile_stop(prof));
    assert_balanced(prof);
    s = (seen){0};
    seen_profile(&s, prof);
    assert_string_equal(s.problem, "");
    assert_int_equal(seen_nth(&s, -1, 0)->kind, MTP__KIND_STEP); /* the profile's own */
}

static void close_it(void)
{
    seen_free(&s);
    mtp_profile_destroy(prof);
}
#endif
