"""The school: people, classes, consent, sign-ins, audit, hints, flags, quizzes and attempts; whose a conversation is."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "audit_entries",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("actor", sa.String(length=64), nullable=False),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("subject", sa.String(length=128), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_audit_entries")),
    )
    op.create_index(op.f("ix_audit_entries_actor"), "audit_entries", ["actor"], unique=False)
    op.create_index(op.f("ix_audit_entries_subject"), "audit_entries", ["subject"], unique=False)
    op.create_table(
        "people",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(length=32), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("username", sa.String(length=64), nullable=False),
        sa.Column("full_name", sa.Text(), nullable=False),
        sa.Column("code", sa.String(length=64), nullable=True),
        sa.Column("birth_date", sa.String(length=10), nullable=True),
        sa.Column("email", sa.Text(), nullable=True),
        sa.Column("phone", sa.Text(), nullable=True),
        sa.Column("password_hash", sa.Text(), nullable=True),
        sa.Column("must_change_password", sa.Boolean(), nullable=False),
        sa.Column("oidc_subject", sa.String(length=255), nullable=True),
        sa.Column("failed_logins", sa.Integer(), nullable=False),
        sa.Column("locked_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("is_active", sa.Boolean(), nullable=False),
        sa.Column("learner_id", sa.String(length=32), nullable=True),
        sa.Column("language", sa.String(length=2), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_people")),
        sa.UniqueConstraint("code", name=op.f("uq_people_code")),
        sa.UniqueConstraint("learner_id", name=op.f("uq_people_learner_id")),
        sa.UniqueConstraint("oidc_subject", name=op.f("uq_people_oidc_subject")),
        sa.UniqueConstraint("public_id", name=op.f("uq_people_public_id")),
        sa.UniqueConstraint("username", name=op.f("uq_people_username")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_people_role"), "people", ["role"], unique=False)
    op.create_table(
        "school_classes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("school_year", sa.String(length=9), nullable=False),
        sa.Column("grade", sa.Integer(), nullable=True),
        sa.Column("policy", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_school_classes")),
        sa.UniqueConstraint("name", "school_year", name=op.f("uq_school_classes_name")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key_digest", sa.String(length=64), nullable=False),
        sa.Column("person_id", sa.Integer(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["person_id"], ["people.id"], name=op.f("fk_api_keys_person_id_people"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
        sa.UniqueConstraint("key_digest", name=op.f("uq_api_keys_key_digest")),
    )
    op.create_index(op.f("ix_api_keys_person_id"), "api_keys", ["person_id"], unique=False)
    op.create_table(
        "class_members",
        sa.Column("class_id", sa.Integer(), nullable=False),
        sa.Column("person_id", sa.Integer(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["class_id"],
            ["school_classes.id"],
            name=op.f("fk_class_members_class_id_school_classes"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["person_id"], ["people.id"], name=op.f("fk_class_members_person_id_people"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("class_id", "person_id", name=op.f("pk_class_members")),
    )
    op.create_index(op.f("ix_class_members_person_id"), "class_members", ["person_id"], unique=False)
    op.create_table(
        "consents",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("student_id", sa.Integer(), nullable=False),
        sa.Column("guardian_id", sa.Integer(), nullable=True),
        sa.Column("guardian_name", sa.Text(), nullable=False),
        sa.Column("text_version", sa.String(length=32), nullable=False),
        sa.Column("given_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("withdrawn_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("recorded_by", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["guardian_id"], ["people.id"], name=op.f("fk_consents_guardian_id_people"), ondelete="SET NULL"
        ),
        sa.ForeignKeyConstraint(
            ["recorded_by"], ["people.id"], name=op.f("fk_consents_recorded_by_people"), ondelete="SET NULL"
        ),
        sa.ForeignKeyConstraint(
            ["student_id"], ["people.id"], name=op.f("fk_consents_student_id_people"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_consents")),
    )
    op.create_index(op.f("ix_consents_student_id"), "consents", ["student_id"], unique=False)
    op.create_table(
        "guardianships",
        sa.Column("guardian_id", sa.Integer(), nullable=False),
        sa.Column("student_id", sa.Integer(), nullable=False),
        sa.Column("granted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["guardian_id"], ["people.id"], name=op.f("fk_guardianships_guardian_id_people"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["student_id"], ["people.id"], name=op.f("fk_guardianships_student_id_people"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("guardian_id", "student_id", name=op.f("pk_guardianships")),
    )
    op.create_index(op.f("ix_guardianships_student_id"), "guardianships", ["student_id"], unique=False)
    op.create_table(
        "ladders",
        sa.Column("learner_id", sa.String(length=32), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("learner_id", name=op.f("pk_ladders")),
    )
    op.create_table(
        "login_sessions",
        sa.Column("token_digest", sa.String(length=64), nullable=False),
        sa.Column("person_id", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["person_id"], ["people.id"], name=op.f("fk_login_sessions_person_id_people"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("token_digest", name=op.f("pk_login_sessions")),
    )
    op.create_index(op.f("ix_login_sessions_person_id"), "login_sessions", ["person_id"], unique=False)
    op.create_table(
        "quizzes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("author_id", sa.Integer(), nullable=True),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("content", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["author_id"], ["people.id"], name=op.f("fk_quizzes_author_id_people"), ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quizzes")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "flags",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("learner_id", sa.String(length=32), nullable=False),
        sa.Column("conversation_id", sa.Integer(), nullable=False),
        sa.Column("turn_id", sa.Integer(), nullable=True),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("severity", sa.String(length=16), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("seen_by", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name=op.f("fk_flags_conversation_id_conversations"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["seen_by"], ["people.id"], name=op.f("fk_flags_seen_by_people"), ondelete="SET NULL"),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name=op.f("fk_flags_turn_id_turns"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_flags")),
    )
    op.create_index(op.f("ix_flags_learner_id"), "flags", ["learner_id"], unique=False)
    op.create_table(
        "quiz_assignments",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("quiz_id", sa.Integer(), nullable=False),
        sa.Column("class_id", sa.Integer(), nullable=False),
        sa.Column("opens_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("closes_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("is_exam", sa.Boolean(), nullable=False),
        sa.Column("shows_keys", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["class_id"],
            ["school_classes.id"],
            name=op.f("fk_quiz_assignments_class_id_school_classes"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["quiz_id"], ["quizzes.id"], name=op.f("fk_quiz_assignments_quiz_id_quizzes"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quiz_assignments")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_quiz_assignments_class_id"), "quiz_assignments", ["class_id"], unique=False)
    op.create_index(op.f("ix_quiz_assignments_quiz_id"), "quiz_assignments", ["quiz_id"], unique=False)
    op.create_table(
        "submissions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("assignment_id", sa.Integer(), nullable=False),
        sa.Column("learner_id", sa.String(length=32), nullable=False),
        sa.Column("seed", sa.Integer(), nullable=False),
        sa.Column("given", sa.Text(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["assignment_id"],
            ["quiz_assignments.id"],
            name=op.f("fk_submissions_assignment_id_quiz_assignments"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_submissions")),
        sa.UniqueConstraint("assignment_id", "learner_id", name=op.f("uq_submissions_assignment_id")),
    )
    op.create_index(op.f("ix_submissions_learner_id"), "submissions", ["learner_id"], unique=False)
    op.create_table(
        "attempts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("learner_id", sa.String(length=32), nullable=False),
        sa.Column("submission_id", sa.Integer(), nullable=True),
        sa.Column("item_id", sa.String(length=64), nullable=False),
        sa.Column("skill", sa.Text(), nullable=False),
        sa.Column("marked", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["submission_id"],
            ["submissions.id"],
            name=op.f("fk_attempts_submission_id_submissions"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempts")),
    )
    op.create_index(op.f("ix_attempts_learner_id"), "attempts", ["learner_id"], unique=False)
    op.create_index(op.f("ix_attempts_submission_id"), "attempts", ["submission_id"], unique=False)
    op.add_column("conversations", sa.Column("owner", sa.String(length=32), nullable=True))
    op.create_index(op.f("ix_conversations_owner"), "conversations", ["owner"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("ix_conversations_owner"), table_name="conversations")
    op.drop_column("conversations", "owner")
    op.drop_index(op.f("ix_attempts_submission_id"), table_name="attempts")
    op.drop_index(op.f("ix_attempts_learner_id"), table_name="attempts")
    op.drop_table("attempts")
    op.drop_index(op.f("ix_submissions_learner_id"), table_name="submissions")
    op.drop_table("submissions")
    op.drop_index(op.f("ix_quiz_assignments_quiz_id"), table_name="quiz_assignments")
    op.drop_index(op.f("ix_quiz_assignments_class_id"), table_name="quiz_assignments")
    op.drop_table("quiz_assignments")
    op.drop_index(op.f("ix_flags_learner_id"), table_name="flags")
    op.drop_table("flags")
    op.drop_table("quizzes")
    op.drop_index(op.f("ix_login_sessions_person_id"), table_name="login_sessions")
    op.drop_table("login_sessions")
    op.drop_table("ladders")
    op.drop_index(op.f("ix_guardianships_student_id"), table_name="guardianships")
    op.drop_table("guardianships")
    op.drop_index(op.f("ix_consents_student_id"), table_name="consents")
    op.drop_table("consents")
    op.drop_index(op.f("ix_class_members_person_id"), table_name="class_members")
    op.drop_table("class_members")
    op.drop_index(op.f("ix_api_keys_person_id"), table_name="api_keys")
    op.drop_table("api_keys")
    op.drop_table("school_classes")
    op.drop_index(op.f("ix_people_role"), table_name="people")
    op.drop_table("people")
    op.drop_index(op.f("ix_audit_entries_subject"), table_name="audit_entries")
    op.drop_index(op.f("ix_audit_entries_actor"), table_name="audit_entries")
    op.drop_table("audit_entries")
