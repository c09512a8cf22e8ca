"""The grants of skills in `state.db`: who besides the owner may use a skill of the owner's, who has granted it, and when."""

from picoclaw.records import NamedTuple
from picoclaw.store.database import Table

EVERYONE = "everyone"
PERSON, AGENT = "person:", "agent:"


class SkillGrant(NamedTuple):
    """A skill that somebody may use: `everyone`, `person:NAME` or `agent:KEY`.

    `pinned` is the version that an agent was granted, '' where the text as it is now counts. `granted_at` is a local
    time with its offset, in ISO 8601.
    """

    skill: str
    grantee: str
    pinned: str
    granted_by: str
    granted_at: str


class SkillGrants(Table):
    def grant(self, grant: SkillGrant) -> None:
        """Keep a grant durably, in the place of an earlier one to the same."""
        with self._database.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO skill_grants VALUES (?, ?, ?, ?, ?)", tuple(grant))

    def revoke(self, skill: str, grantee: str = "") -> list[SkillGrant]:
        """Take a grant back durably, or all of a skill's; returns those that there were."""
        with self._database.transaction() as connection:
            sql = "DELETE FROM skill_grants WHERE skill = ?1 AND ?2 IN ('', grantee) RETURNING *"
            return sorted(SkillGrant(*row) for row in connection.execute(sql, (skill, grantee)))

    def all(self) -> list[SkillGrant]:
        with self._database.reading() as connection:
            rows = connection.execute("SELECT * FROM skill_grants ORDER BY skill, grantee")
            return [SkillGrant(*row) for row in rows]

    def list_accessible(self, agent: str, person: str) -> dict[str, str]:
        """Name the granted skills that a member of the household may use with an agent, each with its pinned version.

        Where it is the person's or everyone's as well, the text as it is now counts: ''.
        """
        found: dict[str, str] = {}
        for grant in self.all():
            if grant.grantee in {EVERYONE, f"{PERSON}{person}"}:
                found[grant.skill] = ""
            elif grant.grantee == f"{AGENT}{agent}":
                found.setdefault(grant.skill, grant.pinned)
        return found
