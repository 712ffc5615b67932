"""Schemas: their versions, and the differences between them."""

from rowen.interfaces.rest.derived import RouteBody, RouteGroup, created, fact_of, list_of

router = RouteGroup(tags=["schemas"])

_BODY = RouteBody(
    "SchemaBody",
    {"ref": "product@1.0.0", "definition": {"type": "object", "properties": {"price": {"type": "number"}}}},
)
_ADDED = created("Schema", lambda schema: f"/api/v1/schemas/{schema.ref}")

router.offer("list_schemas", "GET /schemas", "schemas.list", list_of("Schema"))
router.offer("add_schema", "POST /schemas", "schemas.add", _ADDED, body=_BODY)
router.offer("compare_schemas", "GET /schemas/compare", "schemas.compare", fact_of("SchemaComparison"))
router.offer("get_schema", "GET /schemas/{ref}", "schemas.get", fact_of("Schema"))
router.offer("remove_schema", "DELETE /schemas/{ref}", "schemas.remove", fact_of("SchemaUse"))
