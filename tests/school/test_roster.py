"""Each person of a roster once: repeated rows are told, guardians of brothers and sisters are one."""

from rosters import read


def test_guardians_of_brothers_and_sisters_are_one() -> None:
    roster = read(
        "Mã học sinh,Họ và tên,Lớp,Phụ huynh,SĐT phụ huynh\n"
        "1,Lê Văn A,6A,Lê Văn B,0912345678\n"
        "2,Lê Thị C,7A,LÊ VĂN B,912 345 678\n"
        "3,Đỗ D,7A,Lê Văn B,0900000000\n"
        "4,Đỗ E,7A,,0900000001\n"
    )
    guardians = [row for row in roster.rows if row.role == "guardian"]
    assert [(row.full_name, row.guardian_of) for row in guardians] == [
        ("Lê Văn B", ("1", "2")),
        ("Lê Văn B", ("3",)),
        ("Phụ huynh em Đỗ E", ("4",)),
    ]


def test_repeated_rows_are_told() -> None:
    roster = read(
        "Mã HS,Họ tên,Lớp,Ngày sinh,Tên đăng nhập\n"
        "1,Lê A,6A,05/09/2014,lea\n"
        "1,Đỗ B,6A,,\n"  # the same code
        "2,LÊ A,6B,05/09/2014,\n"  # a namesake with a code of its own
        ",Lê A,6A,05/09/2014,\n"  # cannot be told from either
        "3,Đỗ C,6A,,LeA\n"  # the same username
        ",Đỗ D,6A,,\n"
        ",Đỗ D,6A,,\n"
        ",Đỗ D,6B,,\n"
    )
    assert [(row.line, row.code) for row in roster.rows] == [(2, "1"), (4, "2"), (7, ""), (9, "")]
    assert [(p.line, p.is_warning) for p in roster.problems] == [
        (3, False),
        (4, True),
        (5, False),
        (6, False),
        (8, False),
    ]
    assert "dòng 2 đã có" in roster.problems[0].message
