// The API documentation: Swagger UI over this server's own document. No request goes to another server.

// Swagger UI has a dark theme, which a class selects.
const dark = matchMedia("(prefers-color-scheme: dark)");
const followTheme = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", followTheme);
followTheme();

const ui = SwaggerUIBundle({
  url: "/api/v1/openapi.json",
  dom_id: "#api",
  presets: [SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
  validatorUrl: null,
  queryConfigEnabled: false, // no ?url= parameter: a link must not show another server's document here
  deepLinking: true,
  tryItOutEnabled: true,
  displayRequestDuration: true,
  defaultModelsExpandDepth: 0,
  persistAuthorization: false, // the token stays in memory, as in the storefront
  // The page has a <main> of its own, around everything.
  onComplete() {
    const operations = document.getElementById("operations");
    operations.removeAttribute("tabindex");
    operations.setAttribute("role", "none");
  },
  responseInterceptor(response) {
    const path = new URL(response.url).pathname;
    if (response.ok && (path === "/api/v1/auth/login" || path === "/api/v1/auth/refresh")) {
      ui.preauthorizeApiKey("bearerAuth", response.body?.access_token ?? JSON.parse(response.text).access_token);
    }
    return response;
  },
});
